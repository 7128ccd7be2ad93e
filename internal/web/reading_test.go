package web_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestUpdatesShowWhatWasSettled: an open page of a log of 5,000 entries shows
// what was spent, settled and refunded since.
func TestUpdatesShowWhatWasSettled(t *testing.T) {
	log := memledger.Open(nil)
	s := newScene(t, sceneOptions{opened: log, every: time.Nanosecond})
	before := quota.Call{Account: "my-project", Method: "videos.list", Units: 1, Caller: quota.Caller{Region: "US"}}
	testledger.Fill(t, log, slices.Repeat([]quota.Call{before}, 5000)...)
	shows := func(pattern string) {
		t.Helper()
		for late := time.Now().Add(30 * time.Second); !regexp.MustCompile(pattern).MatchString(s.fetch("/").text); {
			if time.Now().After(late) {
				t.Fatalf("%s is not shown in\n%s", pattern, s.fetch("/").text)
			}
		}
	}
	shows(`Last 24 hours <strong><data value="5000">`)
	shows(`(?s)budget-0-0.*data-by="region"`)
	call := quota.Call{Account: "my-project", Method: "search.list", Units: 100, Caller: quota.Caller{Region: "GB"}}
	var grants []*quota.Grant
	for range 10 {
		grant, err := s.Guard().Spend(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, grant)
		s.fetch("/")
	}
	if err := grants[0].Settle(t.Context(), 40); err != nil {
		t.Fatal(err)
	}
	if err := grants[1].Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(fmt.Sprintf(`Last 24 hours <strong><data value="%d">`, 5000+100*len(grants)-60-100))
}

// TestTheFirstPaintHasTheWholeLog: of 2,110 calls of a run, the page showed the
// newest 2,000, and who had spent a budget up to an hour later.
func TestTheFirstPaintHasTheWholeLog(t *testing.T) {
	s := newScene(t, sceneOptions{opened: memledger.Open(nil), every: time.Nanosecond})
	s.spend("videos.list", "US", "j", 2110)
	text := s.fetch("/").text
	contains(t, text,
		`<td class="n desk"><data value="2110">2,110</data></td><td class="n"><data value="2110">2,110</data></td>`,
		`Last 24 hours <strong><data value="2110">`)
	if !regexp.MustCompile(`(?s)budget-0-0.*data-by="job">.*<td>j</td><td class="n"><data value="2110">`).MatchString(
		text) {
		t.Errorf("who spent is missing in\n%s", text)
	}
}

// bigCosts has 200 budgets in five accounts, of which big has the log.
func bigCosts() string {
	var b strings.Builder
	for u := range 5 {
		account := "big"
		if u > 0 {
			account = fmt.Sprint("small", u)
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b,
			"version: 1\nupstream: %s\naccount: %[1]s\nhosts: [%[1]s.example.com]\nfeedback: generic\nhistory: 3d\n",
			account)
		fmt.Fprint(&b,
			"routes: {\"GET /v1/{m}\": m0}\ncosts: {m0: 1, m1: 1, m2: 2, m3: 5, m4: 1, m5: 1, m6: 1, m7: 1, m8: 1, "+
				"m9: 10}\nbudgets:\n")
		for i := range 40 {
			fmt.Fprintf(&b, "  - {name: b%d-%02d, limit: %d, window: %dh, methods: [m%d]}\n", u, i, 100_000+i*10_000,
				6*(1+i/10), i%10)
		}
	}
	return b.String()
}

// fillLog fills a ledger with n entries of the last two days.
func fillLog(t *testing.T, path string, n int) {
	t.Helper()
	end := time.Now()
	start := end.Add(-48 * time.Hour)
	at := start
	l, err := sqliteledger.Open(path,
		&sqliteledger.Options{Now: func() time.Time { return at }, Sync: sqliteledger.Normal})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	random := rand.New(rand.NewPCG(1, 2))
	regions := []string{"US", "GB", "IN", "DE", "FR", "BR", "AU", "CA"}
	const batch = 500
	for i := 0; i < n; i += batch {
		at = start.Add(end.Sub(start) / time.Duration(n) * time.Duration(i))
		var calls []quota.Call
		for range batch {
			calls = append(calls, quota.Call{Account: "big", Method: fmt.Sprintf("m%d", random.IntN(10)), Units: 1,
				Caller: quota.Caller{Lane: "cron", Job: fmt.Sprintf("job%d", random.IntN(6)),
					Region: regions[random.IntN(len(regions))]}})
		}
		testledger.Fill(t, l, calls...)
	}
}

// bigLog is how many entries the log of TestALongLogStaysUsable has: a million
// take a minute to make, and are measured for docs/performance.md.
func bigLog(t *testing.T) int {
	if text := os.Getenv("RATION_PAGE_ENTRIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 4_000
}

// TestALongLogStaysUsable opens a page of 200 budgets. It logs how long the
// first paint takes, how large the page is, and what it costs while it is open.
func TestALongLogStaysUsable(t *testing.T) {
	p := newTab(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	fillLog(t, file, bigLog(t))
	s := newScene(t, sceneOptions{ledger: file, costs: bigCosts()})
	spend := func(method, job string) {
		if _, err := s.Guard().Spend(t.Context(),
			quota.Call{Account: "big", Method: method, Units: 1,
				Caller: quota.Caller{Lane: "cron", Region: "US", Job: job}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		spend(fmt.Sprintf("m%d", i), "first") // from now on, the ledger keeps what each budget counts
	}
	for _, visit := range []string{"first", "second"} {
		p.visit(s.url + "/")
		p.until("performance.getEntriesByName('first-contentful-paint').length")
		t.Logf("%s visit: first paint after %.0f ms, %v bytes", visit,
			p.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime"),
			p.eval("performance.getEntriesByType('navigation')[0].decodedBodySize"))
		p.until("document.querySelectorAll('tbody[data-budget]').length === 200 && document.querySelector('.legend " +
			"data')")
	}
	spend("m3", "new")
	p.until("document.querySelector('#log tbody tr').innerText.includes('new')")
	p.measure(t)
}
