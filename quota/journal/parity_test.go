package journal_test

import (
	"errors"
	"fmt"
	"os"
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
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// losingStore is where a ledger is that forgets.
type losingStore interface {
	open(p *parity) (quota.Ledger, error)
	// forget forgets some of what the store holds, or puts an older copy in
	// its place.
	forget(p *parity)
}

// parity is one host on a ledger that forgets, and the same calls on one in
// memory that does not.
type parity struct {
	*rapid.T
	store       losingStore
	number      int // of the run
	dir         string
	clock       *ledgertest.Clock
	budgets     []quota.Budget
	whole, lost *quota.Guard
	journal     *journal.Ledger
	grants      [][2]*quota.Grant
	seen        []error
	ticks       time.Duration
	granted     time.Time // the newest grant
	copied      bool      // there is a copy in which no call costs more than it was settled to since; see Ledger.Restore
}

func (p *parity) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// now is the clock of the ledger and of the journal: some microseconds pass
// between a restoration and the next decision.
func (p *parity) now() time.Time {
	p.ticks += time.Microsecond
	return p.clock.Now().Add(p.ticks)
}

// restart makes a new process of the host.
func (p *parity) restart() {
	if p.journal != nil {
		p.must(p.journal.Close())
	}
	inner, err := p.store.open(p)
	p.must(err)
	p.journal = journal.New(inner, filepath.Join(p.dir, "journal"), &journal.Options{Budgets: p.budgets, Now: p.now, Report: func(err error) { p.seen = append(p.seen, err) }})
	p.lost, err = quota.NewGuard(p.journal, p.budgets, nil)
	p.must(err)
	p.grants = nil // a grant belongs to its process
}

// redisStore is a Redis server. Each run has a prefix of its own.
type redisStore struct {
	*testing.T
	server *redistest.Server
}

func (r redisStore) prefix(p *parity) string { return fmt.Sprintf("parity%d.", p.number) }

func (r redisStore) open(p *parity) (quota.Ledger, error) {
	return redisledger.Open(r.server.URL(), &redisledger.Options{Prefix: r.prefix(p), Now: p.now})
}

func (r redisStore) forget(p *parity) {
	prefix := r.prefix(p)
	switch fault := rapid.SampledFrom([]string{"*", "*:log", "*:meta", "*:[0-9a-f]*", "copy", "older"}).Draw(p.T, "forgets"); fault {
	case "copy":
		p.copied = true
		r.replace("older:"+prefix, prefix)
	case "older":
		if p.copied {
			r.replace(prefix, "older:"+prefix)
		}
	default:
		deleteAll(r.T, r.server, prefix+fault)
	}
}

// replace puts a copy of all keys with one prefix in the place of those with
// another.
func (r redisStore) replace(prefix, from string) {
	deleteAll(r.T, r.server, prefix+"*")
	for _, key := range r.server.Do(r.T, "keys", from+"*").([]any) {
		r.server.Do(r.T, "copy", key, prefix+strings.TrimPrefix(key.(string), from))
	}
}

// fileStore is a SQLite file. The process that has it open ends first.
type fileStore struct{}

func (fileStore) open(p *parity) (quota.Ledger, error) {
	return sqliteledger.Open(filepath.Join(p.dir, "ledger", "ration.db"), &sqliteledger.Options{Sync: sqliteledger.Normal, Now: p.now})
}

func (fileStore) forget(p *parity) {
	if p.clock.Now().Sub(p.granted) > 24*time.Hour {
		return // to a host that knows nothing of it, a file that is gone is an error
	}
	p.must(p.journal.Close())
	p.journal = nil
	ledger, older := filepath.Join(p.dir, "ledger"), filepath.Join(p.dir, "older")
	switch fault := rapid.SampledFrom([]string{"ration.db", "", "copy", "older"}).Draw(p.T, "forgets"); {
	case fault == "copy":
		p.copied = true
		p.must(errors.Join(os.RemoveAll(older), os.CopyFS(older, os.DirFS(ledger))))
	case fault == "older" && p.copied:
		p.must(errors.Join(os.RemoveAll(ledger), os.CopyFS(ledger, os.DirFS(older))))
	case fault != "older":
		p.must(errors.Join(os.RemoveAll(filepath.Join(ledger, fault)), os.MkdirAll(ledger, 0o700)))
	}
	p.restart()
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
		p.granted = p.clock.Now()
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

// TestLossesChangeADecision: whatever the ledger forgets, a host that is alone
// on it is answered as by one that forgets nothing: what is granted, which
// budget refuses, how much it has left, and when to try again.
func TestLossesChangeADecision(t *testing.T) {
	t.Run("Redis", func(t *testing.T) { playLosses(t, redisStore{t, redistest.Start(t)}) })
	t.Run("SQLite", func(t *testing.T) {
		if testing.Short() {
			t.Skip("opens thousands of files, 9 seconds")
		}
		playLosses(t, fileStore{})
	})
}

func playLosses(t *testing.T, store losingStore) {
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
		p := &parity{T: rt, store: store, number: run, dir: filepath.Join(t.TempDir(), fmt.Sprint(run)), clock: &ledgertest.Clock{}, budgets: budgets}
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
			case step < 16:
				store.forget(p)
			case step < 18:
				p.restart()
			default:
				p.clock.Add(time.Duration(rapid.IntRange(1, 1500).Draw(rt, "minutes")) * time.Minute)
			}
		}
	})
}
