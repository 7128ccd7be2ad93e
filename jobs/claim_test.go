package jobs_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// link is a host's way to a ledger. While it is cut, the ledger is down for
// the host.
type link struct {
	quota.Ledger
	cut     atomic.Bool
	appends atomic.Int64 // that were answered
	reads   atomic.Int64 // likewise
	heard   func()       // called before each answer to an append; may be nil
}

// RealTime says what engine.RealTime says of the ledger.
func (l *link) RealTime() bool { return engine.RealTime(l.Ledger) }

// Append implements quota.Ledger.
func (l *link) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	if l.cut.Load() {
		return nil, quota.ErrLedgerDown
	}
	defer l.appends.Add(1)
	if l.heard != nil {
		defer l.heard()
	}
	return l.Ledger.Append(ctx, account, a)
}

// Read implements quota.Ledger.
func (l *link) Read(ctx context.Context, account string, r *quota.Read) (*quota.Tail, error) {
	if l.cut.Load() {
		return nil, quota.ErrLedgerDown
	}
	defer l.reads.Add(1)
	return l.Ledger.Read(ctx, account, r)
}

// waitForAppends waits until the host has appended n times more.
func (l *link) waitForAppends(n int64) {
	for before := l.appends.Load(); l.appends.Load() < before+n; {
		runtime.Gosched()
	}
}

// hosts share an upstream, and a ledger for their claims. Calls are charged to
// another one that all of them always reach, as if they had an allowance.
type hosts struct {
	*scene
	runners []*jobs.Runner // of each host
	links   []*link
}

// hostClaimTime is how long the hosts of the tests claim a pass.
const hostClaimTime = 3 * time.Second

func newHosts(t *testing.T, n int, fetch string, regions ...string) *hosts {
	t.Helper()
	const budget = "  - {name: all, limit: 9500, window: 24h}\n"
	h := &hosts{scene: newScene(t, budget, fetch, nil, regions...)}
	shared := memledger.Open(nil)
	table, err := costs.Parse("costs.yaml", []byte(pricelist+budget))
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		l := &link{Ledger: shared}
		guard, err := quota.NewGuard(l, h.budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Now: h.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		runner := *h.Runner
		runner.Catalog, runner.Guard, runner.Table, runner.ClaimTime = store, guard, table, hostClaimTime
		h.runners, h.links = append(h.runners, &runner), append(h.links, l)
	}
	return h
}

// runOn runs the regions on a host and returns the report of the first.
func (h *hosts) runOn(t *testing.T, host int) jobs.RegionReport {
	t.Helper()
	report, err := h.runners[host].Run(t.Context(), h.regions)
	if err != nil {
		t.Fatal(err)
	}
	return report.Regions[0]
}

// beforeRequest calls f before the nth request to the upstream.
func (h *hosts) beforeRequest(n int64, f func(*http.Request)) {
	var requests atomic.Int64
	base := h.transport.Base
	h.transport.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		if requests.Add(1) == n {
			f(req)
		}
		return base.RoundTrip(req)
	})
}

// completes checks that a host takes the pass to its end.
func (h *hosts) completes(t *testing.T, host int) {
	t.Helper()
	if report := h.runOn(t, host); report.Outcome != jobs.Complete {
		t.Errorf("%s, %v; want it complete", report.Outcome, report.Err)
	}
}

// paid checks how often the pages of the chart were paid for, all of
// them together.
func (h *hosts) paid(t *testing.T, want int64) {
	t.Helper()
	if total := h.upstream.Total(); total != want {
		t.Errorf("%d pages were paid for; want %d", total, want)
	}
}

const fourPages = "[{trending: {pages: 4}}]"

// elsewhere checks that a pass was skipped because another host has it.
func elsewhere(t *testing.T, report jobs.RegionReport, done bool) {
	t.Helper()
	e, ok := errors.AsType[*jobs.ElsewhereError](report.Err)
	if !ok || report.Outcome != jobs.Skipped || e.Claim.Done != done {
		t.Errorf("%s, %v; want it skipped because another host has it, done: %v", report.Outcome, report.Err, done)
	}
}

// TestALongPassIsNotTakenOver: a page takes longer than a claim lasts. The
// claim is renewed meanwhile, and another host does not take the pass over.
func TestALongPassIsNotTakenOver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds for a claim to lapse")
	}
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	h.beforeRequest(2, func(*http.Request) {
		for end := time.Now().Add(3 * hostClaimTime / 2); time.Now().Before(end); {
			elsewhere(t, h.runOn(t, 1), false)
		}
	})
	h.completes(t, 0)
	elsewhere(t, h.runOn(t, 1), true)
	h.paid(t, 4)
}

// TestARunMayBeStoppedWhileItClaims: a run that was told to stop while its pass
// was being claimed read which context had stopped it while the claim
// replaced that.
func TestARunMayBeStoppedWhileItClaims(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	for range 50 { // the race detector saw one in four
		ctx, stop := context.WithCancel(t.Context())
		h.links[0].heard = stop
		report, err := h.runners[0].Run(ctx, h.regions)
		if err != nil || report.Outcome != jobs.Stopped {
			t.Fatalf("%+v, %v; want it stopped", report, err)
		}
	}
	h.paid(t, 0)
	h.completes(t, 1) // it is not claimed any more
}

// TestUnreleasedClaimIsResumed: the ledger goes down before a run ends. The
// next runs of the same host go on at once, while the ledger is down and when
// it is back; another host has to wait for the claim to lapse.
func TestUnreleasedClaimIsResumed(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		h.runners[0].Progress = func(jobs.Progress) {
			h.links[0].cut.Store(true)
			stop()
		}
		report, err := h.runners[0].Run(ctx, h.regions)
		if err != nil || report.Outcome != jobs.Stopped {
			t.Fatalf("%+v, %v; want it stopped", report, err)
		}
		elsewhere(t, h.runOn(t, 1), false)
	}
	h.paid(t, 2)
	h.links[0].cut.Store(false)
	h.runners[0].Progress = nil
	h.completes(t, 0)
	elsewhere(t, h.runOn(t, 1), true)
	h.paid(t, 4)
}

// TestAnUnclaimedPassIsClaimedLater: a pass begins while the ledger is down. It
// is claimed when the ledger is back, with the pages that were fetched before.
func TestAnUnclaimedPassIsClaimedLater(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	h.links[0].cut.Store(true)
	h.beforeRequest(3, func(*http.Request) {
		h.links[0].cut.Store(false)
		h.links[0].waitForAppends(2) // the claim and a note
		elsewhere(t, h.runOn(t, 1), false)
	})
	h.completes(t, 0)
	elsewhere(t, h.runOn(t, 1), true)
	h.paid(t, 4)
}

// TestAHostStopsWhenAnotherHasItsPass: a pass begins while the ledger is down
// for one host only, and another one fetches it. When the ledger is back, the
// first one stops.
func TestAHostStopsWhenAnotherHasItsPass(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	h.links[0].cut.Store(true)
	h.beforeRequest(2, func(*http.Request) {
		h.completes(t, 1)
		reads := h.links[0].reads.Load()
		h.links[0].cut.Store(false)
		for h.links[0].reads.Load() == reads { // by which it finds the pass done
			runtime.Gosched()
		}
	})
	elsewhere(t, h.runOn(t, 0), true)
	h.paid(t, 2+4)
}

// TestAForgottenClaimIsClaimedAgain: the ledger loses its data in the middle of
// a pass. The pass is claimed again, and no other host begins it.
func TestAForgottenClaimIsClaimedAgain(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	empty := memledger.Open(nil)
	for _, l := range h.links {
		l.Ledger = &replaced{Ledger: l.Ledger, later: empty}
	}
	h.beforeRequest(3, func(*http.Request) {
		for _, l := range h.links {
			l.Ledger.(*replaced).lost.Store(true)
		}
		for isEmpty := true; isEmpty; runtime.Gosched() { // until the next renewal
			for range empty.Accounts(t.Context()) {
				isEmpty = false
			}
		}
		elsewhere(t, h.runOn(t, 1), false)
	})
	h.completes(t, 0)
	elsewhere(t, h.runOn(t, 1), true)
	h.paid(t, 4)
}

// replaced is a ledger that is replaced by an empty one.
type replaced struct {
	quota.Ledger
	later quota.Ledger
	lost  atomic.Bool
}

// RealTime says what engine.RealTime says of the ledger.
func (l *replaced) RealTime() bool { return engine.RealTime(l.now()) }

func (l *replaced) now() quota.Ledger {
	if l.lost.Load() {
		return l.later
	}
	return l.Ledger
}

// Append implements quota.Ledger.
func (l *replaced) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	return l.now().Append(ctx, account, a)
}

// Read implements quota.Ledger.
func (l *replaced) Read(ctx context.Context, account string, r *quota.Read) (*quota.Tail, error) {
	return l.now().Read(ctx, account, r)
}

// TestRegionsWithOtherStepsAreTwoPasses: two configurations that share an
// account have regions of the same name. If they fetch something else, these
// are two passes.
func TestRegionsWithOtherStepsAreTwoPasses(t *testing.T) {
	t.Parallel()
	h := newHosts(t, 2, fourPages, "US")
	h.completes(t, 0)
	h.regions[0].Steps = append(h.regions[0].Steps, jobs.Step{Kind: jobs.Categories, Pages: 1})
	h.completes(t, 1)
	h.paid(t, 4+5)
}
