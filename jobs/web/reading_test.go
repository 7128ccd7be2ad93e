package web_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// bigCosts has 200 budgets in five accounts, of which big has the log.
func bigCosts() string {
	var b strings.Builder
	for u := range 5 {
		account := "big"
		if u > 0 {
			account = fmt.Sprint("small", u)
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, "version: 1\nupstream: %s\naccount: %[1]s\nhosts: [%[1]s.example.com]\nfeedback: generic\nhistory: 3d\n", account)
		fmt.Fprint(&b, "routes: {\"GET /v1/{m}\": m0}\ncosts: {m0: 1, m1: 1, m2: 2, m3: 5, m4: 1, m5: 1, m6: 1, m7: 1, m8: 1, m9: 10}\nbudgets:\n")
		for i := range 40 {
			fmt.Fprintf(&b, "  - {name: b%d-%02d, limit: %d, window: %dh, methods: [m%d]}\n", u, i, 100_000+i*10_000, 6*(1+i/10), i%10)
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
	l, err := sqliteledger.Open(path, &sqliteledger.Options{Now: func() time.Time { return at }, Sync: sqliteledger.Normal})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	random := rand.New(rand.NewPCG(1, 2))
	regions := []string{"US", "GB", "IN", "DE", "FR", "BR", "AU", "CA"}
	const batch = 500
	for i := 0; i < n; i += batch {
		at = start.Add(end.Sub(start) / time.Duration(n) * time.Duration(i))
		b := &quota.Batch{Account: "big", History: 72 * time.Hour}
		for range batch {
			b.Requests = append(b.Requests, quota.Request{Method: fmt.Sprintf("m%d", random.IntN(10)), Units: 1, Force: true,
				Caller: quota.Caller{Lane: "cron", Job: fmt.Sprintf("job%d", random.IntN(6)), Region: regions[random.IntN(len(regions))]}})
		}
		if _, err := l.Spend(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// bigLog is how many entries the log of TestALongLogStaysUsable has: a million take
// a minute to make, and are measured for docs/page.md.
func bigLog(t *testing.T) int {
	if text := os.Getenv("RATION_PAGE_ENTRIES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 50_000
}

// TestALongLogStaysUsable opens a page of 200 budgets. It logs how long the first
// paint takes, how large the page is, and what it costs while it is open.
func TestALongLogStaysUsable(t *testing.T) {
	b := newBrowser(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	fillLog(t, file, bigLog(t))
	s := newScene(t, sceneOptions{ledger: file, costs: bigCosts()})
	spend := func(method string) {
		if _, err := s.Guard().Spend(t.Context(), quota.Call{Account: "big", Method: method, Units: 1, Caller: quota.Caller{Lane: "cron", Region: "US", Job: "job0"}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		spend(fmt.Sprintf("m%d", i)) // from now on, the ledger keeps what each budget counts
	}
	p := b.open()
	for _, visit := range []string{"first", "second"} {
		p.visit(s.url + "/")
		p.until("performance.getEntriesByName('first-contentful-paint').length")
		t.Logf("%s visit: first paint after %.0f ms, %v bytes", visit, p.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime"), p.eval("performance.getEntriesByType('navigation')[0].decodedBodySize"))
		p.until("document.querySelectorAll('tbody[data-budget]').length === 200 && document.querySelector('.legend data')")
	}
	used := func(method int) string {
		return fmt.Sprintf("Number(document.querySelector('#budget-0-%d [data-is=used] data').value)", method)
	}
	before := p.eval(used(3)).(float64)
	spend("m3")
	p.until(fmt.Sprintf("%s === %v", used(3), before+1))
	p.measure(t)
}
