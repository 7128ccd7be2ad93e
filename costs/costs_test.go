package costs_test

import (
	"encoding/csv"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

const shipped = "../costs.yaml"

func load(t testing.TB) *costs.Table {
	t.Helper()
	data, err := os.ReadFile(shipped) // not Load: a checkout may be writable by its group
	if err != nil {
		t.Fatal(err)
	}
	table, err := costs.Parse(shipped, data)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func parse(t testing.TB, text string) *costs.Table {
	t.Helper()
	table, err := costs.Parse("costs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTheShippedFileHasItsBudgetsAndLedger(t *testing.T) {
	table := load(t)
	pacific, _ := time.LoadLocation("America/Los_Angeles")
	want := []quota.Budget{
		{Account: "my-project", Name: "youtube", Limit: 9500, Window: quota.Sliding(24 * time.Hour)},
		{Account: "my-project", Name: "youtube-day", Limit: 9500, Window: quota.Daily(pacific)},
		{Account: "my-project", Name: "youtube-search", Limit: 4000, Window: quota.Sliding(24 * time.Hour),
			Methods: []string{"search.list"}},
		{Account: "my-project", Name: "youtube-search-burst", Limit: 1500, Window: quota.Sliding(10 * time.Minute),
			Methods: []string{"search.list"}},
	}
	sameWindow := cmp.Comparer(func(a, b quota.Window) bool { return a.String() == b.String() })
	if diff := cmp.Diff(want, table.Budgets(), sameWindow); diff != "" {
		t.Error(diff)
	}
	if table.Ledger() != "sqlite:../ration.db" ||
		!regexp.MustCompile(`^\.\./costs\.yaml:[0-9]+:9$`).MatchString(table.LedgerPlace()) {
		t.Errorf("the ledger is %s at %s", table.Ledger(), table.LedgerPlace())
	}
	u := table.Upstreams()[0]
	if u.Name != "youtube" || u.Account != "my-project" || u.API != "youtube/v3" ||
		u.Hosts[0] != "youtube.googleapis.com" || u.Resets.String() != "America/Los_Angeles" || u.Unlisted != 0 {
		t.Errorf("%+v", u)
	}
	for method, want := range map[string]quota.Units{"search.list": 0, "videos.insert": 0, "videos.list": 50} {
		if units := table.Allowance(quota.Call{Account: u.Account, Method: method}); units != want {
			t.Errorf("without its ledger %s may spend %d, want %d", method, units, want)
		}
	}
	if first := u.Costs[0]; len(u.Costs) != 47 || first.Method != "activities.list" || first.Units != 1 {
		t.Errorf("%d costs, the first %v", len(u.Costs), u.Costs[0])
	}
}

// Ration must prevent a day's searches within ten minutes: the shipped budgets
// used to grant forty in one second. A pass of all eight regions at once must
// still fit.
func TestTheShippedBudgetsGrantADaysSearchesAtOnce(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	table := load(t)
	guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: clock.Now}), table.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	call, err := table.Call("", "search.list")
	if err != nil {
		t.Fatal(err)
	}
	search := func() (granted int) {
		for {
			_, err := guard.Spend(t.Context(), call)
			if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
				if refused.Budget != "youtube-search-burst" || refused.RetryAfter > 10*time.Minute {
					t.Errorf("refused by %v", refused)
				}
				return granted
			} else if err != nil {
				t.Fatal(err)
			}
			granted++
		}
	}
	if granted := search(); granted != 15 {
		t.Errorf("%d searches are granted at once; want 15, room for the eight of a pass", granted)
	}
	total := 0
	for minute := range 10 {
		clock.Set(time.Date(2026, 11, 20, 9, minute, 59, 999_000_000, time.UTC))
		total += search()
	}
	if total != 0 {
		t.Errorf("%d more within the ten minutes", total)
	}
	clock.Set(time.Date(2026, 11, 20, 9, 10, 0, 1_000_000, time.UTC))
	if granted := search(); granted != 15 {
		t.Errorf("%d searches ten minutes later", granted)
	}
}

// methods returns the rows of the shared list of methods, by column, if the
// file exists.
func methods(t *testing.T) []map[string]string {
	file, err := os.Open("../../shared/data/youtube_methods.csv")
	if err != nil {
		return nil
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 84 {
		t.Fatalf("%d rows, want a head and 83 methods", len(rows))
	}
	var all []map[string]string
	for _, row := range rows[1:] {
		named := map[string]string{}
		for i, name := range rows[0] {
			named[name] = row[i]
		}
		all = append(all, named)
	}
	return all
}

func atoi(s string) (n int) {
	for _, digit := range s {
		n = 10*n + int(digit-'0')
	}
	return n
}

func TestLoadResolvesTheLedgersPath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "costs.yaml")
	text := "version: 1\naccount: a\nledger: LEDGER\ncosts: {get: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"
	for ledger, want := range map[string]string{
		"sqlite:ration.db": "sqlite:" + filepath.Join(dir, "ration.db"),
		"sqlite:../x/r.db?synchronous=normal": "sqlite:" + filepath.Join(filepath.Dir(dir), "x", "r.db") +
			"?synchronous=normal",
		"sqlite:/var/lib/ration/r.db":  "sqlite:/var/lib/ration/r.db",
		"rediss://ration@redis:6379/0": "rediss://ration@redis:6379/0",
	} {
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "LEDGER", ledger)), 0o600); err != nil {
			t.Fatal(err)
		}
		table, err := costs.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Ledger(); got != want {
			t.Errorf("ledger %s is %s, want %s", ledger, got, want)
		}
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := costs.Load(path); runtime.GOOS != "windows" &&
		(!errors.Is(err, files.ErrUnsafe) || !strings.Contains(err.Error(), "chmod go-w")) {
		t.Errorf("a file that everyone may write: %v", err)
	}
	if _, err := costs.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// two has an upstream with routes and one without, and a method that both know.
const two = `
version: 1
upstream: youtube
account: yt
api: youtube/v3
hosts: [youtube.googleapis.com]
costs: {search.list: 100, videos.list: 1}
budgets:
  - {name: all, limit: 1000, window: 24h}
  - {name: cron, limit: 500, window: 10m, lanes: [cron], count: calls}
when_ledger_down: {videos.list: {allow: 5}}
---
version: 1
account: other
costs: {videos.list: 3, reports.get: 2}
budgets: [{name: all, limit: 10, window: 1m, methods: [videos.list]}]
`

func TestAMethodIsPricedByItsName(t *testing.T) {
	table := parse(t, two)
	for _, c := range []struct {
		upstream, method string
		want             quota.Call
		err              error
		says             string
	}{
		{"", "search.list", quota.Call{Account: "yt", Method: "search.list", Units: 100}, nil, ""},
		{"", "reports.get", quota.Call{Account: "other", Method: "reports.get", Units: 2}, nil, ""},
		{"", "videos.list", quota.Call{}, costs.ErrManyUpstreams, "name one of youtube, other"},
		{"youtube", "videos.list", quota.Call{Account: "yt", Method: "videos.list", Units: 1}, nil, ""},
		{"yt", "videos.list", quota.Call{Account: "yt", Method: "videos.list", Units: 1}, nil, ""},
		{"other", "videos.list", quota.Call{Account: "other", Method: "videos.list", Units: 3}, nil, ""},
		{"", "videos.insert", quota.Call{}, costs.ErrNoCost, "has no cost"},
		{"", "serach.list", quota.Call{}, costs.ErrNoCost, "write search.list"},
		{"none", "search.list", quota.Call{}, costs.ErrNoCost, "name one of youtube, other"},
	} {
		got, err := table.Call(c.upstream, c.method)
		if !reflect.DeepEqual(got, c.want) || !errors.Is(err, c.err) || err != nil &&
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("Call(%q, %q) = %+v, %v", c.upstream, c.method, got, err)
		}
	}
	if units := table.Allowance(quota.Call{Account: "yt", Method: "videos.list"}); units != 5 {
		t.Errorf("videos.list may spend %d without its ledger", units)
	}
	if err := table.CheckFetched("search.list", quota.Caller{Region: "US"}); err != nil {
		t.Error(err)
	}
	if err := table.CheckFetched("reports.get", quota.Caller{}); !errors.Is(err, costs.ErrNoBudget) {
		t.Errorf("a method without a budget: %v", err)
	}
	if err := table.CheckFetched("videos.insert", quota.Caller{}); !errors.Is(err, costs.ErrNoCost) {
		t.Errorf("a method without a cost: %v", err)
	}
}

func TestQuoteSaysThePriceOrWhyThereIsNone(t *testing.T) {
	table := parse(t, two)
	got, err := table.Quote("", "https://youtube.googleapis.com/youtube/v3/search?q=x&key=AIzaSECRET")
	if err != nil || !got.Guarded || got.Call.Units != 100 || len(got.Budgets) != 1 || got.Budgets[0].Name != "all" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := table.Quote("GET", "https://example.com/youtube/v3/search"); err != nil || got.Guarded {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := table.Quote("PUT",
		"https://youtube.googleapis.com/upload/youtube/v3/videos?uploadType=resumable&upload_id=x"); !errors.Is(err,
		costs.ErrNoCost) {
		t.Errorf("%+v, %v", got, err)
	}
	for request, want := range map[string]string{
		"POST /youtube/v3/search":  "the path takes no such verb; write GET",
		"GET /youtube/v3/sarch":    "no method of the upstream has this path",
		"GET /batch":               "a batch hides how many calls it is",
		"GET /youtube/v3/search/":  "the path is not clean",
		"GET /youtube/v3/%73earch": "the path has encoded letters",
	} {
		verb, path, _ := strings.Cut(request, " ")
		if _, err := table.Quote(verb, "https://youtube.googleapis.com"+path); !errors.Is(err, costs.ErrNoRoute) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", request, err, want)
		}
	}
	for _, raw := range []string{"/youtube/v3/search?q=a", "youtube/v3/search",
		"youtube.googleapis.com/youtube/v3/search"} {
		const want = "the request is refused: the URL is incomplete; write " +
			"https://youtube.googleapis.com/youtube/v3/search"
		if _, err := table.Quote("GET", raw); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", raw, err, want)
		}
	}
	for _, raw := range []string{"/youtube/v3/search?key=AIzaSECRET",
		"https://youtube.googleapis.com/nothing?key=AIzaSECRET", "https://you tube/?key=AIzaSECRET",
		"https://youtube.googleapis.com/search%3Fkey=SECRET", "https:youtube.googleapis.com/?key=AIzaSECRET",
		"u:AIzaSECRET@youtube.googleapis.com/youtube", "/u:AIzaSECRET@youtube.googleapis.com/youtube",
		"https://u:AIzaSECRET@youtube.googleapis.com/youtube/v3/search"} {
		_, err := table.Quote("GET", raw)
		if !errors.Is(err, costs.ErrNoRoute) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", raw, err)
		}
		if refused, ok := errors.AsType[*costs.PriceError](err); ok && strings.Contains(refused.Path, "SECRET") {
			t.Errorf("%s: path %q holds the key", raw, refused.Path)
		}
	}
}

func TestEndpointsArePricedAsTheUpstreamsOwn(t *testing.T) {
	table, err := parse(t, two).WithEndpoint("", "http://127.0.0.1:8080/")
	if err != nil {
		t.Fatal(err)
	}
	for raw, units := range map[string]quota.Units{"http://127.0.0.1:8080/youtube/v3/search": 100,
		"https://youtube.googleapis.com/youtube/v3/search": 100, "http://127.0.0.1:8081/youtube/v3/search": 0} {
		if got, err := table.Quote("GET", raw); err != nil || got.Call.Units != units {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
	if _, err := table.Quote("GET", "http://127.0.0.1:8080/other"); !errors.Is(err, costs.ErrNoRoute) {
		t.Errorf("another path of an endpoint: %v", err)
	}
	for _, c := range [][2]string{{"", "127.0.0.1:8080"}, {"", "http://example.com"}, {"", "https://127.0.0.1/prefix"},
		{"", "https://u:p@127.0.0.1"}, {"", "ftp://127.0.0.1"}, {"other", "http://127.0.0.1:1"}, {"", "http://[::1"},
		{"", "https://a~b.example"}, {"", "http://127.0.0.1:0"}, {"", "http://127.0.0.1:65536"}} {
		if _, err := table.WithEndpoint(c[0], c[1]); err == nil {
			t.Errorf("%v is an endpoint", c)
		}
	}
}

func get(t testing.TB, raw string) *http.Request {
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Request{Method: "GET", URL: u, Header: http.Header{"User-Agent": {"test"}, "Accept": {"*/*"}}}
}
