package journal_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// nothingNoted fails the test if a host that is alone on its ledger has entered
// what others had spent.
func nothingNoted(t *testing.T, h *host, losses int) {
	t.Helper()
	if len(h.seen) != losses {
		t.Errorf("%d reports; want %d restorations", len(h.seen), losses)
	}
	for _, err := range h.seen {
		if report, ok := errors.AsType[*journal.RestoredError](err); !ok || report.Noted != 0 {
			t.Errorf("reported: %v; nobody else has spent anything", err)
		}
	}
}

// TestRefusalsAfterALossAreOfOthers: after a loss a host was only refused, and
// the next loss made what had refused it the spending of others: used doubled
// with each.
func TestRefusalsAfterALossAreOfOthers(t *testing.T) {
	u, ledger := startUpstream(t), memledger.Open(nil)
	h := newHost(t, func() quota.Ledger { return ledger })
	u.spend(t, h.process(), 500)
	for range 3 {
		ledger = memledger.Open(nil)
		u.exhaust(t, h.process())
	}
	nothingNoted(t, h, 3)
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream; want 500", hits)
	}
}

// TestSettledAfterALossIsOfOthers: a call was settled to less after it had been
// restored, and the next loss made the difference the spending of others.
func TestSettledAfterALossIsOfOthers(t *testing.T) {
	ledger := memledger.Open(nil)
	h := newHost(t, func() quota.Ledger { return ledger })
	grant, err := h.process().Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 100})
	must(t, err)
	ledger = memledger.Open(nil)
	for range 2 {
		_, err = h.process().Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
		must(t, err)
	}
	must(t, grant.Settle(t.Context(), 40))
	ledger = memledger.Open(nil)
	_, err = h.process().Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
	must(t, err)
	nothingNoted(t, h, 2)
}

// TestRefusalAtALowLimitHidesOthers: a host has heard that others had spent 300
// units. After a loss it was only refused, at another configuration's limit of
// 100, kept no more than that of the refusal, and believed it after the next
// loss.
func TestRefusalAtALowLimitHidesOthers(t *testing.T) {
	u, ledger := startUpstream(t), memledger.Open(nil)
	open := func() quota.Ledger { return ledger }
	ours, theirs := newHost(t, open), newHost(t, open)
	u.spend(t, theirs.process(), 300)
	u.spend(t, ours.process(), 100)
	ledger = memledger.Open(nil)
	low := slices.Clone(budgets)
	low[0].Limit, low[0].Config = 100, quota.Config{Name: "low", Changed: time.Now()}
	l := journal.New(open(), ours.dir, &journal.Options{Budgets: low})
	defer l.Close()
	g, err := quota.NewGuard(l, low, nil)
	must(t, err)
	if err := u.send(t, g, 1); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	ledger = memledger.Open(nil)
	u.exhaust(t, ours.process())
	u.exhaust(t, theirs.process())
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream; want 500", hits)
	}
}

// TestRestoredNotesAreCalls: a note and a correction were restored as additions
// to calls, and no report told them from what this host had spent.
func TestRestoredNotesAreCalls(t *testing.T) {
	ledger := memledger.Open(nil)
	h := newHost(t, func() quota.Ledger { return ledger })
	g := h.process()
	note := func(method string, units quota.Units, kind quota.EntryKind) {
		must(t, g.Note(t.Context(), quota.Note{Call: quota.Call{Account: account, Method: method, Units: units}, Kind: kind}))
	}
	note("others: day", 7, quota.EntryNote)
	note("reconcile", 3, quota.EntryCorrection)
	note("remark", 0, quota.EntryNote)
	_, err := g.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
	must(t, err)
	kinds := func() (kinds []string) {
		for e, err := range ledger.Entries(t.Context(), quota.Query{Account: account}) {
			must(t, err)
			kinds = append(kinds, fmt.Sprint(e.Method, " ", e.Units, " ", e.Kind))
		}
		return kinds
	}
	want := append(kinds(), "m 2 call")
	ledger = memledger.Open(nil)
	_, err = h.process().Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 2})
	must(t, err)
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("restored %q; want %q", got, want)
	}
}

// TestOutageAfterALossIsOfOthers: what a host had spent within its allowance
// was restored, and then it was only refused. After the next loss its own calls
// of the outage were noted as those of others.
func TestOutageAfterALossIsOfOthers(t *testing.T) {
	u, inner := startUpstream(t), &faulty{Ledger: memledger.Open(nil)}
	inner.fail(nil)
	h := newHost(t, func() quota.Ledger { return inner })
	u.spend(t, h.process(), 470)
	inner.fail(errDown)
	u.spend(t, h.process(), 30)
	inner.fail(nil)
	u.exhaust(t, h.process())
	for range 2 {
		inner.Ledger = memledger.Open(nil)
		u.exhaust(t, h.process())
	}
	nothingNoted(t, h, 3)
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream; want 500", hits)
	}
}

// TestAcceptedLossIsRestoredFirst: a host that owes calls of an outage restored
// all that it was told to give up.
func TestAcceptedLossIsRestoredFirst(t *testing.T) {
	u, inner := startUpstream(t), &faulty{Ledger: memledger.Open(nil)}
	inner.fail(nil)
	h := newHost(t, func() quota.Ledger { return inner })
	u.spend(t, h.process(), 2)
	inner.fail(errDown)
	u.spend(t, h.process(), 3)
	inner.fail(nil)
	inner.Ledger = memledger.Open(nil)
	must(t, h.process().AcceptLoss(t.Context(), account))
	u.spend(t, h.process(), 500)
	for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
		must(t, err)
		if until := time.Until(e.At); e.AcceptsLoss() && until > time.Minute {
			t.Errorf("accepted at %s; want now", e.At)
		}
	}
	nothingNoted(t, h, 0)
}

// TestGivenUpCallsHideOthers: after another loss, a host took the calls that it
// had given up for a part of what it had heard since, and noted as much less of
// others: 100 - 60 units.
func TestGivenUpCallsHideOthers(t *testing.T) {
	for name, lose := range map[string]func(*shared){
		"emptied": func(s *shared) {
			s.spend("ours", 60)
			s.lose()
		},
		"older copy": func(s *shared) {
			s.spend("ours", 20)
			putBack := s.keep()
			s.spend("ours", 40)
			putBack()
		},
		"calls of an outage": func(s *shared) {
			s.spend("ours", 20)
			s.down = true
			s.spend("ours", 40)
			s.down = false
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pause := range []time.Duration{time.Hour, 18 * time.Hour} { // the given-up calls are in their window, or not
				s := share(t)
				lose(s)
				s.Add(time.Hour)
				s.process("operator", func(g *quota.Guard, _ *journal.Ledger) { must(t, g.AcceptLoss(t.Context(), account)) })
				s.Add(4 * time.Hour)
				s.spend("theirs", 100)
				s.Add(5 * time.Hour)
				s.spend("ours", 1)
				s.Add(pause)
				s.lose()
				s.spend("ours", 1)
				want := quota.Units(1 + 100 + 1)
				if pause == time.Hour {
					want += 60 // the note of the accepted loss is lost, too
				}
				s.mustBeInUse(want)
			}
		})
	}
}

// mute is a ledger that lists nothing.
type mute struct{ quota.Ledger }

func (mute) Entries(context.Context, quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) { yield(quota.Entry{}, errDown) }
}

// TestRefusalNamesTheNewestEntry: the question for the newest entry after a
// refusal failed, so that a host did not notice an older copy that lacked what
// others had spent before: 999 of 500.
func TestRefusalNamesTheNewestEntry(t *testing.T) {
	s := share(t)
	s.spend("ours", 1)
	older := s.keep()
	s.spend("theirs", 499)
	s.isMute = true
	s.exhaust("ours")
	s.isMute = false
	older()
	s.exhaust("ours")
	s.mustBe(500)
}
