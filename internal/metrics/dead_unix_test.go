//go:build unix

package metrics_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestADeadLedgerFailsNoScrape: with a ledger that is down or hangs, scrapes
// end, also many at a time, and show the limits and what was counted.
func TestADeadLedgerFailsNoScrape(t *testing.T) {
	for name, kill := range map[string]func(*servers.Redis){
		"down":  func(s *servers.Redis) { s.Stop() },
		"hangs": func(s *servers.Redis) { s.Hang(t) },
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.StartRedis(t)
			ledger, err := redisledger.Open(server.URL(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer ledger.Close()
			timed := metrics.NewLedger(ledger)
			var budgets []quota.Budget
			for _, account := range []string{"a", "b", "c"} {
				budgets = append(budgets,
					quota.Budget{Account: account, Name: "day", Limit: 10, Window: quota.Sliding(time.Hour)})
			}
			guard := newGuard(t, timed, budgets...)
			c := metrics.New(guard, &metrics.Options{Ledger: timed, Timeout: 100 * time.Millisecond})
			if _, err := guard.Spend(t.Context(), call("list", 3)); err != nil {
				t.Fatal(err)
			}
			patient := metrics.New(newGuard(t, timed, budgets...), nil)
			expect(t, scrape(t, patient), `ration_budget_used_units{account="a",budget="day"} 3`)
			kill(server)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := guard.Spend(ctx, call("list", 3)); err == nil {
				t.Fatal("granted")
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					text := scrape(t, c)
					expect(t, text, `ration_budget_limit_units{account="c",budget="day"} 10`,
						`ration_units_total{account="a",budget="day",lane="cron",method="list"} 3`)
					if strings.Contains(text, "ration_budget_used_units") {
						t.Errorf("what is used, although the ledger cannot say:\n%s", text)
					}
				})
			}
			wg.Wait()
			file := filepath.Join(t.TempDir(), "none", "x.prom")
			err = c.Write(io.Discard, file)
			if failed, ok := errors.AsType[*fs.PathError](err); !ok || failed.Path != file ||
				!strings.Contains(err.Error(), "\nbalances of c: ") {
				t.Errorf("%v; want that there is no %s, and why there are no balances", err, file)
			}
		})
	}
}
