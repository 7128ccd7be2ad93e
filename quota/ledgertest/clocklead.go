package ledgertest

import (
	"errors"
	"time"

	"github.com/ration-dev/ration/quota"
)

// clockLeads returns the subtests about a ledger whose clock is ahead of
// its caller's.
func clockLeads() []subtest {
	return []subtest{
		{"ClockFarAheadDecidesNothing", clockFarAheadDecidesNothing},
		{"ClockFarAheadOfAnEmptyLog", clockFarAheadOfAnEmptyLog},
		{"ClockAheadByFiveMinutesIsAccepted", clockAheadByFiveMinutes},
		{"ClockOfACallerThatIsBehindALogInUse", clockOfACallerBehind},
		{"ClockOfACallerThatIsAhead", clockOfACallerAhead},
		{"ClockFarAheadOfACounter", clockFarAheadOfACounter},
		{"ClockFarAheadRestoresNothing", clockFarAheadRestoresNothing},
	}
}

// at returns a batch of a caller whose clock shows a time.
func at(caller time.Time, requests ...quota.Request) *quota.Batch {
	return &quota.Batch{Account: account, Clock: caller, Requests: requests}
}

// stopped checks that nothing is decided for a caller whose clock shows a time.
func (w *world) stopped(caller, newest time.Time, requests ...quota.Request) {
	w.Helper()
	answers, err := w.Spend(w.ctx, at(caller, requests...))
	stopped, ok := errors.AsType[*quota.ClockError](err)
	if !ok || !errors.Is(err, quota.ErrLedgerConfig) || answers != nil {
		w.Fatalf("%v, %v; want a ClockError", answers, err)
	}
	showsClocks := stopped.Ledger.Equal(w.clock.Now()) && stopped.Caller.Equal(caller)
	if stopped.Account != account || !showsClocks || !stopped.Newest.Equal(newest) {
		w.Fatalf("%+v; want the ledger's time %s, the caller's %s and the newest entry's %s", stopped, w.clock.Now(), caller, newest)
	}
}

// clockFarAheadDecidesNothing: a clock that jumps ahead of a full budget frees
// nothing, records nothing and drops nothing.
func clockFarAheadDecidesNothing(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	calendar := charge("calendar", 500, quota.Daily(time.UTC))
	for range 500 {
		w.ask(at(w.clock.Now(), request("m", 1, day, calendar)))
	}
	full := w.log()
	newest := full[len(full)-1].At
	for _, jump := range []time.Duration{quota.MaxClockLead + 2*time.Second, 25 * time.Hour, 49 * time.Hour, 9000 * time.Hour} {
		w.clock.Set(noon.Add(jump))
		w.stopped(noon, newest, request("m", 1, day, calendar))
		w.stopped(noon.Add(time.Second), newest, request("m", 1))
		w.stopped(noon, newest, forced(request("m", 1, day)))
		w.clock.Set(noon.Add(time.Second))
		if log := w.log(); len(log) != len(full) || log[0] != full[0] {
			w.Fatalf("%d entries after the clock was %s ahead; want %d", len(log), jump, len(full))
		}
		w.refused(w.ask(at(w.clock.Now(), request("m", 1, day)))[0], "day", 24*time.Hour-time.Second, 0)
	}
}

// clockFarAheadOfAnEmptyLog: a log without entries does not support the
// ledger's clock either.
func clockFarAheadOfAnEmptyLog(w *world) {
	day := charge("day", 10, quota.Sliding(24*time.Hour))
	w.stopped(noon.Add(-25*time.Hour), time.Time{}, request("m", 1, day))
	w.clock.Add(-25 * time.Hour)
	w.ask(at(w.clock.Now(), request("m", 1, day)))
}

func clockAheadByFiveMinutes(w *world) {
	day := charge("day", 10, quota.Sliding(24*time.Hour))
	w.granted(at(noon.Add(-quota.MaxClockLead), request("m", 1, day)))
	w.clock.Add(quota.MaxClockLead + µs)
	w.stopped(noon, noon, request("m", 1, day))
	w.clock.Add(-µs)
	w.granted(at(noon.Add(-time.Hour), request("m", 1, day)))
}

// clockOfACallerBehind: a host with a wrong clock is served while other hosts
// support the ledger's.
func clockOfACallerBehind(w *world) {
	day := charge("day", 10, quota.Sliding(24*time.Hour))
	w.clock.Add(25 * time.Hour)
	for range 4 {
		w.ask(at(w.clock.Now(), request("m", 1, day)))
		w.clock.Add(4 * time.Minute)
		w.granted(at(noon, request("m", 1, day)))
	}
	w.used(8, day)
}

// clockOfACallerAhead: a ledger whose clock is behind frees nothing early.
func clockOfACallerAhead(w *world) {
	day := charge("day", 10, quota.Sliding(24*time.Hour))
	for range 2 {
		w.granted(at(w.clock.Now().Add(49*time.Hour), request("m", 1, day)))
		w.clock.Add(23 * time.Hour)
	}
	w.used(1, day)
}

// clockFarAheadOfACounter: a log without entries has the time of its
// newest call.
func clockFarAheadOfACounter(w *world) {
	each := charge("each", 10, quota.Counter(time.Minute))
	w.spend(10, each)
	w.clock.Add(time.Hour)
	w.stopped(noon, noon, request("m", 10, each))
	w.clock.Set(noon.Add(time.Second))
	if answers := w.ask(at(w.clock.Now(), request("m", 10, each))); answers[0].Err == nil {
		w.Fatalf("%v; want a refusal", answers)
	}
}

// clockFarAheadRestoresNothing: entries that are due are not dropped because
// the ledger's clock takes them for old.
func clockFarAheadRestoresNothing(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	h.call("m", 100, day)
	r := &quota.Restoration{Account: account, History: 24 * time.Hour, Clock: noon, Entries: h.entries}
	w.clock.Add(49 * time.Hour)
	if done, err := w.Restore(w.ctx, r); !errors.Is(err, quota.ErrLedgerConfig) {
		w.Fatalf("%+v, %v; want a ClockError", done, err)
	}
	w.clock.Set(noon.Add(time.Minute))
	if done, err := w.Restore(w.ctx, r); err != nil || done.Units != 100 {
		w.Fatalf("%+v, %v; want all 100 units", done, err)
	}
	w.used(100, day)
}
