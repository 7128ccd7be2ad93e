package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const video = "/to/youtube.googleapis.com/youtube/v3/videos?part=id&id=a&key=k"

// TestServeServesItsMetrics: a daemon shows what it decided and its passes,
// behind the checks of all pages, and goes on with that when the configuration
// is read again.
func TestServeServesItsMetrics(t *testing.T) {
	s := newStand(t, plentyOfUnits+", {name: tried, limit: 1, window: 24h, shadow: true}", "[trending]", "US")
	s.env["RATION_TOKEN"] = "0123456789abcdef"
	s.spend("videos.list", 2)
	d := s.serve()
	d.says(passOf("US", "complete"))
	token := []string{"Authorization", "Bearer 0123456789abcdef"}
	status, text := d.get("/metrics", token...)
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	hasSamples(t, text, `ration_pass_runs_total{outcome="complete",region="US"} 1`,
		`ration_replica_failing{account="p"} 0`)
	for _, name := range []string{"ration_decisions_total", "ration_units_total", "ration_budget_limit_units",
		"ration_budget_used_units", "ration_budget_remaining_units",
		"ration_budget_next_free_timestamp_seconds", "ration_wait_seconds_count",
		"ration_ledger_duration_seconds_count", "ration_unrecorded_units", "ration_restorations_total",
		"ration_pass_units_total", "ration_budget_would_refuse_calls"} {
		if !strings.Contains(text, "\n"+name+"{") {
			t.Errorf("no %s in:\n%s", name, text)
		}
	}
	if status, _ := d.get("/metrics", "Authorization", "Bearer wrong"); status != http.StatusUnauthorized {
		t.Errorf("with another token: %d", status)
	}
	if status, _ := d.get("/metrics",
		append(token, "Host", "evil.example")...); status != http.StatusMisdirectedRequest {
		t.Errorf("for another host: %d", status)
	}
	d.reload()
	d.says(`nothing changed`)
	_, text = d.get("/metrics", token...)
	hasSamples(t, text, `ration_pass_runs_total{outcome="complete",region="US"} 1`)
	d.ends()
}

// TestAReloadKeepsCounters: a counter of a daemon never falls. After each
// reload of the configuration it began at 0.
func TestAReloadKeepsCounters(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[trending]", "US")
	d := s.proxy()
	decided := func() (text string) { _, text = d.get("/metrics"); return text }
	for n := 1; n <= 4; n++ {
		if status, body := d.get(video); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		want := []string{fmt.Sprintf(`ration_decisions_total{account="p",budget="all",lane="",method="videos.list",`+
			`result="granted"} %d`, n),
			fmt.Sprintf(`ration_units_total{account="p",budget="all",lane="",method="videos.list"} %d`, n),
			fmt.Sprintf(`ration_ledger_duration_seconds_count{op="append",result="ok"} %d`, n),
			fmt.Sprintf(`ration_ledger_duration_seconds_bucket{op="append",result="ok",le="+Inf"} %d`, n)}
		hasSamples(t, decided(), want...)
		s.write("costs.yaml", strings.Replace(s.read("costs.yaml"), fmt.Sprintf("limit: %d", 9501-n),
			fmt.Sprintf("limit: %d", 9500-n), 1))
		d.reload()
		d.says(fmt.Sprintf(`limit %d -> %d"`, 9501-n, 9500-n))
		for text := decided(); ; text = decided() {
			hasSamples(t, text, want...)
			if t.Failed() {
				t.FailNow()
			}
			if strings.Contains(text, fmt.Sprintf(`ration_budget_limit_units{account="p",budget="all"} %d`, 9500-n)) {
				break
			}
		}
	}
	d.ends()
}

// TestSearchesAreLimited: a client may search 60 times a minute.
func TestSearchesAreLimited(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[trending]", "US")
	place := s.setup()
	d := s.serve(func(schedule *daemon.Schedule) {
		schedule.Search = func(ctx context.Context, _ *client.Client, query url.Values) (any, error) {
			return cli.Search(ctx, place, catalog.Query{Text: query.Get("q"), Limit: 1})
		}
	})
	d.says(passOf("US", "complete"))
	var statuses [62]int
	for i := range statuses {
		statuses[i], _ = d.get("/search?q=the")
	}
	if statuses[0] != 200 || statuses[59] != 200 || statuses[60] != 429 || statuses[61] != 429 {
		t.Errorf("%v; want 60 answers, then 429", statuses)
	}
	d.ends()
}

// TestAProxyFindsItsLedgerWhenItIsBack: a proxy that starts while its ledger is
// down answers 503 and sends nothing, until the ledger is there.
func TestAProxyFindsItsLedgerWhenItIsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a ledger that is down")
	}
	t.Parallel()
	server := servers.StartRedis(t)
	server.Stop()
	s := newStand(t, plentyOfUnits, "[trending]", "US")
	s.env["RATION_LEDGER"] = server.URL()
	d := s.proxy()
	if status, body := d.get(video); status != http.StatusServiceUnavailable || s.upstream.Total() != 0 {
		t.Errorf("%d %s, the upstream counted %d", status, body, s.upstream.Total())
	}
	server.Restart(t)
	for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		status, body := d.get(video)
		if status == http.StatusOK {
			break
		}
		if status != http.StatusServiceUnavailable || time.Now().After(end) {
			t.Fatalf("%d %s", status, body)
		}
	}
	d.ends()
	if got := s.upstream.Total(); got != 1 {
		t.Errorf("the upstream counted %d; want the one call that was granted", got)
	}
}

// TestAProxySaysThatItsAccountMoved: all its calls fail, and the log says
// why.
func TestAProxySaysThatItsAccountMoved(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[trending]", "US")
	s.spend("videos.list", 1)
	ledger, err := sqliteledger.Open(filepath.Join(s.dir, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	if err := testledger.CloseAccount(t.Context(), ledger,
		quota.MovedError{Account: "p", Ledger: "redis://there:6379/2"}); err != nil {
		t.Fatal(err)
	}
	d := s.proxy()
	d.says(`level=ERROR msg="account moved" reason=".*has moved to the ledger redis://there:6379/2; name that one`)
	d.ends()
}

// alertSent is what a webhook gets.
type alertSent struct {
	Text, Kind, Budget string
	Level              int
}

// alert adds a webhook to a stand's costs.yaml, and returns what it gets.
func (s *stand) alert() chan alertSent {
	got := make(chan alertSent, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var one alertSent
		if err := json.Unmarshal(body, &one); err != nil {
			s.Errorf("%v in %s", err, body)
		}
		got <- one
	}))
	s.Cleanup(server.Close)
	s.write("costs.yaml", s.read("costs.yaml")+"alert: {webhook: \""+server.URL+
		"/services/hook\", on: [level, exhaustion, cooldown, ledger, drift], levels: [95]}\n")
	return got
}

// TestServeSendsDueAlertsWhenItStarts: serve sends what is due when it starts,
// and another one does not.
func TestServeSendsDueAlertsWhenItStarts(t *testing.T) {
	s := newStand(t, "{name: all, limit: 100, window: 24h}", "[trending]", "US")
	got := s.alert()
	s.spend("search.list", 100)
	first := s.serve()
	if one := <-got; one.Level != 95 {
		t.Errorf("%+v", one)
	}
	second := s.serve()
	second.says("msg=listening")
	first.ends()
	second.ends()
	if len(got) > 0 {
		t.Errorf("and again: %+v", <-got)
	}
}

// TestServeForeseesItsTicks: serve sends an alert because the coming ticks need
// more than a budget has left, although little has been spent so far.
func TestServeForeseesItsTicks(t *testing.T) {
	s := newStand(t, "{name: all, limit: 500, window: 24h}", "[{search: {queries: [q]}}]", "US")
	got := s.alert()
	s.write("regions.yaml", strings.Replace(s.read("regions.yaml"), "0 0 29 2 *", "'0 */3 * * *'", 1))
	s.spend("search.list", 100)
	d := s.serve()
	if one := <-got; one.Kind != "exhaustion" ||
		!strings.HasPrefix(one.Text, "ration: by the schedule, all of p refuses its first call at ") {
		t.Errorf("%+v", one)
	}
	d.ends()
}

// TestAReloadedProxyTakesNewPrices: a reload changes what the next request
// costs. A broken file changes nothing.
func TestAReloadedProxyTakesNewPrices(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[trending]", "US")
	if err := os.Remove(filepath.Join(s.dir, "regions.yaml")); err != nil {
		t.Fatal(err)
	}
	d := s.proxy()
	used := func(want string) {
		t.Helper()
		if status, body := d.get(video); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		if _, text := d.get("/metrics"); !strings.Contains(text,
			"\n"+`ration_budget_used_units{account="p",budget="all"} `+want+"\n") {
			t.Errorf("want %s used in\n%s", want, text)
		}
	}
	used("1")
	costs := s.read("costs.yaml")
	s.write("costs.yaml", strings.Replace(costs, "videos.list: 1", "videos.list: 2", 1))
	d.reload()
	d.says(`what="cost of videos.list: units 1 -> 2"`)
	used("3")
	s.write("costs.yaml", strings.Replace(costs, "videos.list: 1", "videos.list: many", 1))
	d.reload()
	d.says(`level=WARN msg="the old configuration stays in force"`)
	used("5")
	d.ends()
}
