package jobs_test

import (
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs"
)

// allow gives a host an allowance while the ledger is down.
func (h *hosts) allow(t *testing.T, host int) {
	t.Helper()
	table, err := costs.Parse("costs.yaml",
		[]byte(pricelist+"  - {name: all, limit: 9500, window: 24h}\nwhen_ledger_down: {default: {allow: 50}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	h.runners[host].Table = table
}

// TestAHostWithAnAllowanceGoesOn: a host with an allowance loses the ledger,
// and its claim lapses. It goes on, until it finds that another host has taken
// the pass over.
func TestAHostWithAnAllowanceGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a claim to lapse")
	}
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	h.allow(t, 0)
	h.beforeRequest(2, func(*http.Request) {
		h.links[0].cut.Store(true)
		for h.runOn(t, 1).Outcome == jobs.Skipped {
		}
		h.links[0].cut.Store(false)
	})
	elsewhere(t, h.runOn(t, 0), true)
	h.paid(t, 2+3) // the second page by both
}

// TestAShortOutageEndsNoPass: a host with an allowance loses the ledger
// until shortly before its claim lapses. It took its own claim for that of
// another host, and ended the pass.
func TestAShortOutageEndsNoPass(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for a claim to be about to lapse")
	}
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	h.allow(t, 0)
	h.beforeRequest(2, func(*http.Request) {
		h.links[0].cut.Store(true)
		for end := time.Now().Add(5 * hostClaimTime / 6); time.Now().Before(end); {
			runtime.Gosched()
		}
		h.links[0].cut.Store(false)
		h.links[0].waitForAppends(1)
	})
	h.completes(t, 0)
	elsewhere(t, h.runOn(t, 1), true)
	h.paid(t, 4)
}
