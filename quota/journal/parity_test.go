package journal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// parity is one host on a Redis that forgets, and the same calls on a ledger in
// memory that does not.
type parity struct {
	*rapid.T
	server      *redistest.Server
	prefix, dir string
	clock       *ledgertest.Clock
	budgets     []quota.Budget
	whole, lost *quota.Guard
	journal     *journal.Ledger
	grants      [][2]*quota.Grant
	seen        []error
	ticks       time.Duration
	copied      bool // there is a copy in which no call costs more than it was settled to since; see Ledger.Restore
}

func (p *parity) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// now is the clock of Redis and of the journal: some microseconds pass between
// a restoration and the next decision.
func (p *parity) now() time.Time {
	p.ticks += time.Microsecond
	return p.clock.Now().Add(p.ticks)
}

// restart makes a new process of the host.
func (p *parity) restart() {
	if p.journal != nil {
		p.must(p.journal.Close())
	}
	inner, err := redisledger.Open(p.server.URL(), &redisledger.Options{Prefix: p.prefix, Now: p.now})
	p.must(err)
	p.journal = journal.New(inner, p.dir, &journal.Options{Budgets: p.budgets, Now: p.now, Report: func(err error) { p.seen = append(p.seen, err) }})
	p.lost, err = quota.NewGuard(p.journal, p.budgets, nil)
	p.must(err)
	p.grants = nil // a grant belongs to its process
}

// forget makes Redis forget some of what it holds for the account, or puts an
// older copy in its place.
func (p *parity) forget(t *testing.T) {
	fault := rapid.SampledFrom([]string{"*", "*:log", "*:meta", "*:[0-9a-f]*", "copy", "older"}).Draw(p.T, "forgets")
	switch fault {
	case "copy":
		p.copied = true
		p.replace(t, "older:"+p.prefix, p.prefix)
	case "older":
		if p.copied {
			p.replace(t, p.prefix, "older:"+p.prefix)
		}
	default:
		deleteAll(t, p.server, p.prefix+fault)
	}
}

// replace puts a copy of all keys with one prefix in the place of those with
// another.
func (p *parity) replace(t *testing.T, prefix, from string) {
	deleteAll(t, p.server, prefix+"*")
	for _, key := range p.server.Do(t, "keys", from+"*").([]any) {
		p.server.Do(t, "copy", key, prefix+strings.TrimPrefix(key.(string), from))
	}
}

func (p *parity) call() {
	call := quota.Call{Account: account, Method: rapid.SampledFrom([]string{"list", "search"}).Draw(p.T, "method"),
		Units: quota.Units(rapid.IntRange(1, 40).Draw(p.T, "units")),
		Caller: quota.Caller{Lane: rapid.SampledFrom([]string{"cron", "manual"}).Draw(p.T, "lane"),
			Region: rapid.SampledFrom([]string{"", "DE"}).Draw(p.T, "region")}}
	one, err := p.whole.Spend(p.Context(), call)
	other, failed := p.lost.Spend(p.Context(), call)
	said := func(err error) string {
		if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
			return fmt.Sprintf("%s %d %s", refused.Budget, refused.Remaining, refused.RetryAt.Truncate(time.Millisecond).UTC())
		}
		return fmt.Sprint(err)
	}
	if said(err) != said(failed) {
		p.Fatalf("%s of %d: %s; without losses: %s\nreported: %v", call.Method, call.Units, said(failed), said(err), p.seen)
	}
	if err == nil {
		p.grants = append(p.grants, [2]*quota.Grant{one, other})
	}
}

// correct settles or refunds a call of the present process.
func (p *parity) correct() {
	if len(p.grants) == 0 {
		return
	}
	p.copied = false
	grants := rapid.SampledFrom(p.grants).Draw(p.T, "grant")
	units := quota.Units(rapid.IntRange(0, 20).Draw(p.T, "settled"))
	for _, g := range grants {
		if units == 0 {
			p.must(g.Refund(p.Context()))
		} else {
			p.must(g.Settle(p.Context(), units))
		}
	}
}

// TestLossesChangeADecision: whatever Redis forgets, a host that is alone on it
// is answered as by a ledger that forgets nothing: what is granted, which
// budget refuses, how much it has left, and when to try again.
func TestLossesChangeADecision(t *testing.T) {
	server := redistest.Start(t)
	pacific, err := time.LoadLocation("America/Los_Angeles")
	must(t, err)
	budgets := []quota.Budget{
		{Account: account, Name: "day", Limit: 300, Window: quota.Sliding(24 * time.Hour), Floor: map[string]quota.Units{"DE": 40}},
		{Account: account, Name: "calendar", Limit: 260, Window: quota.Daily(pacific)},
		{Account: account, Name: "searches", Methods: []string{"search"}, Limit: 100, Window: quota.Sliding(time.Hour)},
		{Account: account, Name: "cron", Lanes: []string{"cron"}, Limit: 120, Window: quota.Sliding(3 * time.Hour)},
		{Account: account, Name: "requests", Measure: quota.Calls, Limit: 9, Window: quota.Sliding(20 * time.Minute)},
	}
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		p := &parity{T: rt, server: server, prefix: fmt.Sprintf("parity%d.", run), dir: filepath.Join(t.TempDir(), fmt.Sprint(run)), clock: &ledgertest.Clock{}, budgets: budgets}
		p.clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
		p.whole, err = quota.NewGuard(memledger.Open(&memledger.Options{Now: p.clock.Now}), budgets, nil)
		must(t, err)
		p.restart()
		defer func() { _ = p.journal.Close() }()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			p.ticks = 0
			p.clock.Add(time.Duration(rapid.IntRange(1, 60_000).Draw(rt, "milliseconds")) * time.Millisecond)
			switch step := rapid.IntRange(0, 19).Draw(rt, "step"); {
			case step < 11:
				p.call()
			case step < 14:
				p.correct()
			case step < 17:
				p.forget(t)
			case step < 19:
				p.restart()
			default:
				p.clock.Add(time.Duration(rapid.IntRange(1, 400).Draw(rt, "minutes")) * time.Minute)
			}
		}
	})
}
