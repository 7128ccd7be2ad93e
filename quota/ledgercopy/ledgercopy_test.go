package ledgercopy_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgercopy"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const account = "my-project"

// clock is the clock of both ledgers.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)} }

// stores open ledgers of each kind.
func stores(t *testing.T) map[string]store {
	server := redistest.Start(t)
	return map[string]store{
		"memory": func(_ *testing.T, c *clock) quota.Log { return ledgertest.Memory(&memledger.Options{Now: c.now}) },
		"SQLite": func(t *testing.T, c *clock) quota.Log {
			l, err := ledgertest.SQLite(filepath.Join(t.TempDir(), "ration.db"), &sqliteledger.Options{Now: c.now, Sync: sqliteledger.Normal})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return l
		},
		"Redis": func(t *testing.T, c *clock) quota.Log {
			l, err := ledgertest.Redis(server.URL(), &redisledger.Options{Now: c.now, Prefix: fmt.Sprintf("r%x", quota.NewClient())})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return l
		},
	}
}

// house is a ledger to move from, and one to move to.
type house struct {
	testing.TB
	*clock
	*ledgercopy.Copy
	old, new *quota.Guard
}

func newHouse(t testing.TB, c *clock, from, to quota.Log, budgets ...quota.Budget) *house {
	if len(budgets) == 0 {
		budgets = []quota.Budget{
			{Account: account, Name: "day", Limit: 100_000, Window: quota.Sliding(24 * time.Hour)},
			{Account: account, Name: "searches", Limit: 5000, Measure: quota.Calls, Methods: []string{"search"}, Window: quota.Daily(time.UTC)},
			{Account: account, Name: "burst", Limit: 10_000, Window: quota.Counter(10 * time.Minute)},
		}
	}
	h := &house{TB: t, clock: c, Copy: &ledgercopy.Copy{From: from, To: to, FromName: "sqlite:/old.db", ToName: "redis://new:6379/0", Budgets: budgets}}
	h.guards()
	return h
}

// guards makes the guards of new processes.
func (h *house) guards() {
	h.Helper()
	var errs [2]error
	h.old, errs[0] = quota.NewGuard(h.From, h.Budgets, nil)
	h.new, errs[1] = quota.NewGuard(h.To, h.Budgets, nil)
	if err := errors.Join(errs[:]...); err != nil {
		h.Fatal(err)
	}
}

func (h *house) spend(g *quota.Guard, key, method string, units quota.Units) *quota.Grant {
	h.Helper()
	grant, err := g.Spend(h.Context(), quota.Call{Account: account, Key: key, Method: method, Units: units, Caller: quota.Caller{Lane: "cron", Job: "job " + method, Region: "US"}})
	if err != nil {
		h.Fatal(err)
	}
	return grant
}

// furnish fills the old ledger with all that a log can hold.
func (h *house) furnish(n int) {
	h.Helper()
	grants := []*quota.Grant{}
	for i := range n {
		h.at = h.at.Add(time.Second)
		grants = append(grants, h.spend(h.old, "", []string{"list", "search"}[i%2], quota.Units(1+i%9)))
	}
	ctx := h.Context()
	err := errors.Join(
		grants[0].Settle(ctx, 20), // more than 256 are newer: an addition
		grants[n-1].Refund(ctx), grants[n-2].Settle(ctx, 3), grants[n-3].Settle(ctx, 0),
		h.old.Note(ctx, quota.Note{Call: quota.Call{Account: account, Method: "others: day", Units: 70, Caller: quota.Caller{Lane: "upstream"}}}),
		h.old.Note(ctx, quota.Note{Call: quota.Call{Account: account, Method: "reconcile", Units: 5}, Calls: 2, Kind: quota.EntryCorrection}),
		h.From.SetCooldown(ctx, quota.Cooldown{Account: account, Budget: "searches", For: 3 * time.Hour, Reason: "quotaExceeded"}),
		h.From.SetCooldown(ctx, quota.Cooldown{Account: account, Budget: "of another configuration", For: 2 * time.Hour}),
	)
	for _, key := range []string{"10.0.0.1", "10.0.0.2", strings.Repeat("long key ", 20)} {
		h.spend(h.old, key, "list", 4)
		h.spend(h.old, key, "list", 2)
	}
	for range 2 { // an idempotency key that is used again the next day
		h.at = h.at.Add(20 * time.Minute)
		_, again := h.old.Spend(ctx, quota.Call{Account: account, Method: "list", Units: 2, ID: quota.NameID("nightly", "list 2")})
		if _, other := h.old.Spend(ctx, quota.Call{Account: account, Method: "list", Units: 1, ID: quota.NameID("nightly", "list 1")}); other == nil {
			h.Fatal("granted")
		}
		err = errors.Join(err, again)
		h.At(11 * time.Minute)
	}
	if err != nil {
		h.Fatal(err)
	}
}

// At advances the clock.
func (h *house) At(d time.Duration) { h.at = h.at.Add(d) }

// contents is what a ledger says of an account.
type contents struct {
	Logs      map[string][]quota.Entry
	Standings map[string][]quota.Standing
	Cooldowns []quota.Cooldown
}

func (h *house) contents(l quota.Log) contents {
	h.Helper()
	c := contents{Logs: map[string][]quota.Entry{}, Standings: map[string][]quota.Standing{}}
	keys := []string{""}
	for key, err := range l.Keys(h.Context(), account) {
		if err != nil {
			h.Fatal(err)
		}
		if key != "probe" && !quota.IsReserved(key) { // probe is of isOpen
			keys = append(keys, key)
		}
	}
	var charges []*quota.Charge
	for i, coverage := range quota.Coverages(h.Budgets) {
		charges = append(charges, &quota.Charge{Budget: h.Budgets[i].Name, Coverage: coverage, Limit: h.Budgets[i].Limit, Window: h.Budgets[i].Window})
	}
	for _, key := range keys {
		for e, err := range l.Entries(h.Context(), quota.Query{Account: account, Key: key}) {
			if err != nil {
				h.Fatal(err)
			}
			e.ID.Seq = uint64(uint32(e.ID.Seq))
			c.Logs[key] = append(c.Logs[key], e)
		}
		standings, err := l.Standings(h.Context(), account, key, charges)
		if err != nil {
			h.Fatal(err)
		}
		for i := range standings {
			standings[i].Cooldown = nil
		}
		c.Standings[key] = standings
	}
	all, err := l.Cooldowns(h.Context(), account)
	if err != nil {
		h.Fatal(err)
	}
	for _, cool := range all {
		if _, moves := cool.Move(); !moves {
			c.Cooldowns = append(c.Cooldowns, cool)
		}
	}
	slices.SortFunc(c.Cooldowns, func(a, b quota.Cooldown) int { return cmp.Compare(a.Budget, b.Budget) })
	return c
}

func (h *house) move() *ledgercopy.Moving {
	h.Helper()
	moving, err := h.Move(h.Context(), account)
	if err != nil {
		h.Fatal(err)
	}
	return moving
}

// stop is the reason of the whole account's cooldown.
const stop = "all of it"

func (h *house) isOpen(g *quota.Guard) bool {
	h.Helper()
	grant, err := g.Spend(h.Context(), quota.Call{Account: account, Key: "probe", Method: "m", Units: 1})
	if err == nil {
		err = grant.Refund(h.Context())
		return err == nil
	}
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok && !errors.As(err, new(*quota.MovedError)) {
		h.Fatal(err)
	}
	return ok && refused.Detail == stop // by the upstream
}

// store opens a new ledger of its kind.
type store = func(*testing.T, *clock) quota.Log

// opener opens the old ledger, the new one and their clock.
type opener = func() (quota.Log, quota.Log, *clock)

// eachPair runs a test on a ledger of each kind, and on another of each kind.
func eachPair(t *testing.T, run func(*testing.T, opener)) {
	all := stores(t)
	for from := range all {
		for to := range all {
			runPair(t, all, from, to, run)
		}
	}
}

// eachRole runs a test on a ledger of each kind as the old one, and as the
// new one.
func eachRole(t *testing.T, run func(*testing.T, opener)) {
	all := stores(t)
	kinds := slices.Sorted(maps.Keys(all))
	for i, from := range kinds {
		runPair(t, all, from, kinds[(i+1)%len(kinds)], run)
	}
}

func runPair(t *testing.T, all map[string]store, from, to string, run func(*testing.T, opener)) {
	t.Run(from+" to "+to, func(t *testing.T) {
		run(t, func() (quota.Log, quota.Log, *clock) {
			c := newClock()
			return all[from](t, c), all[to](t, c), c
		})
	})
}

// TestCopyDiffersFromTheOriginal: after the move, the new ledger says what the
// old one said before it, goes on from there, and the old one is closed. A
// second copy changes nothing.
func TestCopyDiffersFromTheOriginal(t *testing.T) {
	eachPair(t, func(t *testing.T, open opener) {
		from, to, c := open()
		h := newHouse(t, c, from, to)
		h.furnish(600)
		want := h.contents(h.From)
		plan, err := h.Plan(t.Context(), account)
		if err != nil || plan.State != ledgercopy.Ready || plan.Keys != 3 || len(plan.Cooldowns) != 2 {
			t.Fatalf("%+v, %v", plan, err)
		}
		if got := h.contents(h.To); len(got.Logs) > 0 || len(got.Cooldowns) > 0 || !h.isOpen(h.old) {
			t.Fatalf("a plan changes %+v", got)
		}
		for range 2 {
			moved := h.move().Report()
			if moved.Entries < plan.Entries || moved.Units != plan.Units || moved.Calls != plan.Calls {
				t.Fatalf("moved %+v; planned %+v", moved, plan)
			}
			if d := diff.Diff(want, h.contents(h.To)); d != "" {
				t.Fatalf("(-old +new)\n%s", d)
			}
			_, err = h.old.Spend(t.Context(), quota.Call{Account: account, Method: "list", Units: 1})
			if moved, ok := errors.AsType[*quota.MovedError](err); !ok || moved.Ledger != h.ToName {
				t.Fatalf("%v; want the new ledger's name", err)
			}
		}
		h.At(3 * time.Hour)
		h.spend(h.new, "", "search", 3)
		if got := h.contents(h.To); got.Standings[""][0].Used != want.Standings[""][0].Used+3 {
			t.Fatalf("used %d after %d", got.Standings[""][0].Used, want.Standings[""][0].Used)
		}
	})
}

// faulty fails with the n-th operation of both ledgers, and all later ones.
type faulty struct {
	quota.Log
	left *int
}

var errKilled = errors.New("killed")

func (f faulty) fails() error {
	if *f.left--; *f.left < 0 {
		return errKilled
	}
	return nil
}

func (f faulty) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Log.Spend(ctx, b)
}

func (f faulty) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Log.Standings(ctx, account, key, charges)
}

func (f faulty) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	return cmp.Or(f.fails(), f.Log.SetCooldown(ctx, c))
}

func (f faulty) ClearCooldown(ctx context.Context, account, budget string) error {
	return cmp.Or(f.fails(), f.Log.ClearCooldown(ctx, account, budget))
}

func (f faulty) Cooldowns(ctx context.Context, account string) ([]quota.Cooldown, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.Log.Cooldowns(ctx, account)
}

func (f faulty) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	if err := f.fails(); err != nil {
		return quota.RestoreResult{}, err
	}
	return f.Log.Restore(ctx, r)
}

func (f faulty) Entries(ctx context.Context, q quota.Query) iter.Seq2[quota.Entry, error] {
	if err := f.fails(); err != nil {
		return func(yield func(quota.Entry, error) bool) { yield(quota.Entry{}, err) }
	}
	return f.Log.Entries(ctx, q)
}

// TestKilledCopyLeavesBothOpen kills a copy at each of its operations, before
// or after what that changes. At most one of the ledgers is open then, and the
// same copy completes the move.
func TestKilledCopyLeavesBothOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("kills copies at each of their steps, 11 seconds")
	}
	eachRole(t, func(t *testing.T, open opener) {
		for n, done := 0, false; !done; n++ {
			from, to, c := open()
			h := newHouse(t, c, from, to)
			h.furnish(20)
			held := quota.Cooldown{Account: account, Until: h.at.Add(5 * time.Minute), Reason: stop}
			if err := h.From.SetCooldown(t.Context(), held); err != nil {
				t.Fatal(err)
			}
			want := h.contents(h.From)
			left := n
			killed := *h.Copy
			killed.From, killed.To = faulty{h.From, &left}, faulty{h.To, &left}
			_, err := killed.Move(t.Context(), account)
			if done = err == nil; !done && !errors.Is(err, errKilled) {
				t.Fatalf("after %d operations: %v", n, err)
			}
			h.guards()
			old, isNew := h.isOpen(h.old), h.isOpen(h.new)
			if begun := errors.As(err, new(*ledgercopy.UnfinishedError)) || done; begun && old && isNew || done && (old || !isNew) {
				t.Fatalf("after %d operations: %v; the old ledger is open: %v, the new one: %v", n, err, old, isNew)
			}
			if d := diff.Diff(want.Logs, h.contents(h.To).Logs); isNew && !old && d != "" {
				t.Fatalf("after %d operations, the new ledger is open (-old +new)\n%s", n, d)
			}
			h.move()
			if d := diff.Diff(want, h.contents(h.To)); d != "" {
				t.Fatalf("after %d operations (-old +new)\n%s", n, d)
			}
		}
	})
}
