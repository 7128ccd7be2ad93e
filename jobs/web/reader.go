package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/cooldown"
	"github.com/ration-dev/ration/costs/why"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

const (
	readTimeout  = 10 * time.Second // of an update
	wholeTimeout = time.Minute
	wholePause   = 10 * time.Second // at least, between two whole readings
	wholeShare   = 100              // whole readings take at most this part of the time
	firstWait    = 300 * time.Millisecond
)

// reader reads what the page shows through one client. All but the whole
// reading happens while the Page's lock is held.
type reader struct {
	lifetime context.Context // ends whole readings
	client   *client.Client
	options  *Options

	snapshot *snapshot // of the last update; nil before
	readAt   time.Time
	updates  int
	catalog  *catalog.Catalog // nil: there is none yet
	claimsAt time.Time        // when claims were read

	mu      sync.Mutex
	whole   *whole        // the last one; nil before
	first   chan struct{} // closed when there is one
	reading bool          // another one is in progress
}

// snapshot is what the page shows.
type snapshot struct {
	At       time.Time // on the ledger's clock, if it answers
	Ledger   string
	State    client.LedgerState
	Restored []client.Restoration // what this host restored after a loss, in the last 24 hours
	Err      error                // why the ledger could not be read
	Accounts []*accountState
	Refusals []*why.Document
	Passes   []catalog.PassSummary
	Failures []catalog.Failures
	Claims   []jobs.PassClaim // of all hosts, on the current passes
	Whole    *whole           // nil before the first
}

// accountState is what is known of one account.
type accountState struct {
	Name      string
	Budgets   []*usage.BudgetReport
	Cooldowns []cooldown.Report
	Activity  *activity // nil before it was read
}

// whole is what takes sums of whole windows.
type whole struct {
	at         time.Time
	took       time.Duration
	err        error
	budgets    map[[2]string]*usage.BudgetReport // by account and name
	logs       []*usage.LogReport
	keyed      []usage.KeyReport
	activities map[string]*activity
	refusals   map[refusalKey]*why.Document
	planned    map[string]hours // by account
	planErr    error
	simulated  map[[2]string]simulated // by account and name; of the reading before until it is known
}

func newReader(lifetime context.Context, c *client.Client, o *Options) *reader {
	return &reader{lifetime: lifetime, client: c, options: o, first: make(chan struct{})}
}

// update reads what is new, unless that was done a moment ago. hold keeps the
// client open for a whole reading, which goes on in the background.
func (r *reader) update(ctx context.Context, hold func() (func(), bool)) *snapshot {
	if r.snapshot != nil && time.Since(r.readAt) < r.options.Every/2 {
		return r.snapshot
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	known := r.begin(hold)
	s := &snapshot{At: time.Now().UTC(), Ledger: r.client.LedgerName(), Whole: known}
	s.Err = r.readBalances(ctx, s, known)
	if s.Err != nil {
		s.Accounts = nil // those that were read have no budgets
	} else {
		s.Err = r.readActivities(ctx, s, known)
	}
	if s.Err != nil && r.snapshot != nil && r.snapshot.Accounts != nil {
		s.Accounts, s.At = r.snapshot.Accounts, r.snapshot.At
	}
	s.State = r.client.LedgerState()
	for _, restored := range r.client.Restorations() {
		if restored.Lost {
			s.Restored = append(s.Restored, restored)
		}
	}
	s.Err = r.redact(s.Err)
	r.readRefusals(s, known)
	r.readPasses(ctx, s)
	r.readClaims(ctx, s)
	r.snapshot, r.readAt = s, time.Now()
	r.updates++
	return s
}

// begin begins a whole reading if one is due, and returns the last one. It
// waits a moment for the first.
func (r *reader) begin(hold func() (func(), bool)) *whole {
	r.mu.Lock()
	last := r.whole
	due := last == nil
	if !due {
		pause := max(wholePause, wholeShare*last.took)
		switch r.ageOf(last) {
		case current:
			pause = time.Hour
		case lacking:
			pause = wholeShare / 5 * last.took
		}
		due = time.Since(last.at) > pause
	}
	if due && !r.reading {
		if release, ok := hold(); ok {
			r.reading = true
			go r.readWhole(release, last, last.built())
		}
	}
	r.mu.Unlock()
	if last != nil {
		return last
	}
	select {
	case <-r.first:
	case <-time.After(firstWait):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.whole
}

// age says how urgent the next whole reading is.
type age int

const (
	current age = iota // nothing has changed since
	stale              // other numbers
	lacking            // spenders of a budget or the reason of a refusal were not read yet, or an activity is wrong
)

// ageOf returns how far the last update has left a whole reading behind.
func (r *reader) ageOf(w *whole) age {
	found := current
	if r.snapshot == nil || w.err != nil {
		return stale
	}
	for _, e := range r.snapshot.Refusals {
		if w.refusals[keyOf(e.Refusal)] == nil {
			found = lacking
		}
	}
	for _, a := range w.activities {
		if a.builtAt.IsZero() {
			return lacking
		}
	}
	for _, account := range r.snapshot.Accounts {
		for _, b := range account.Budgets {
			known := w.budgets[[2]string{b.Account, b.Name}]
			switch {
			case known == nil || b.Used > 0 && known.Used == 0:
				return lacking
			case known.Used != b.Used, len(b.NextFree) < len(known.NextFree):
				found = max(found, stale)
			}
		}
	}
	return found
}

// built returns when the activities that are not wrong were first made. w may
// be nil.
func (w *whole) built() map[string]time.Time {
	built := map[string]time.Time{}
	if w == nil {
		return built
	}
	for name, a := range w.activities {
		if !a.builtAt.IsZero() {
			built[name] = a.builtAt
		}
	}
	return built
}

// readBalances reads the budgets and the cooldowns.
func (r *reader) readBalances(ctx context.Context, s *snapshot, known *whole) error {
	balances, err := r.client.Guard().Balances(ctx)
	if err != nil {
		return err
	}
	accounts := map[string]*accountState{}
	for _, name := range r.client.Table().Accounts() {
		_, held, err := cooldown.List(ctx, r.client.Guard(), []string{name})
		if err != nil {
			return err
		}
		accounts[name] = &accountState{Name: name, Cooldowns: shownCooldowns(held)}
		s.Accounts = append(s.Accounts, accounts[name])
	}
	for i := range balances {
		b := usage.NewBudgetReport(&usage.BudgetStatus{Balance: balances[i]})
		if known != nil {
			addWhole(b, known.budgets[[2]string{b.Account, b.Name}], balances[i].At)
			one := known.simulated[[2]string{b.Account, b.Name}]
			one.add(b, balances[i].At)
		}
		account := accounts[b.Account]
		account.Budgets = append(account.Budgets, b)
		s.At = balances[i].At.UTC()
	}
	return nil
}

// addWhole adds to a budget what a whole reading says of it, which may be an
// hour old if nothing was spent since. Returns that are over by now are left
// out, and so is the end of a budget that was not spent by then.
func addWhole(b, known *usage.BudgetReport, now time.Time) {
	if known == nil {
		return
	}
	if b.Keys = known.Keys; b.Used == 0 && b.Keys == nil {
		return
	}
	b.Attribution = known.Attribution
	b.Reconciled = known.Reconciled
	b.Reported = known.Reported
	b.PaceHour = known.PaceHour
	b.PaceOver = known.PaceOver
	if isSpent := b.Used >= b.Limit; isSpent || isAhead(known.RunsOutAt, now) {
		b.RunsOutAt = known.RunsOutAt
	}
	for _, back := range known.NextFree {
		if back.At.After(now) {
			b.NextFree = append(b.NextFree, back)
		}
	}
}

// isAhead reports whether a time is known and not over yet.
func isAhead(at *time.Time, now time.Time) bool { return at != nil && at.After(now) }

// readActivities reads the entries that are new.
func (r *reader) readActivities(ctx context.Context, s *snapshot, known *whole) error {
	if known == nil {
		return nil
	}
	for _, account := range s.Accounts {
		a := known.activities[account.Name]
		if a == nil {
			continue
		}
		goesOn, err := a.update(ctx, r.client.Log(), s.At)
		if err != nil {
			return err
		}
		if !goesOn {
			a.builtAt = time.Time{} // the ledger has lost records, or corrected their times
		}
		account.Activity = a
	}
	return nil
}

// readWhole is a whole reading. It ends the use of the client when it is done.
func (r *reader) readWhole(release func(), last *whole, built map[string]time.Time) {
	defer release()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.lifetime, wholeTimeout)
	defer cancel()
	w := &whole{activities: map[string]*activity{}, refusals: map[refusalKey]*why.Document{},
		budgets: map[[2]string]*usage.BudgetReport{}}
	w.err = r.redact(r.fill(ctx, w, last, built))
	w.planErr = r.redact(w.planErr)
	if last != nil {
		w.simulated = last.simulated
		if w.err != nil {
			w.budgets, w.activities = last.budgets, last.activities
		}
	}
	r.publish(w, began, w.err != nil)
	if w.err != nil {
		return
	}
	more := *w
	more.simulated = r.simulate(ctx)
	r.publish(&more, began, true)
}

// publish makes a whole reading the last one. It ends the reading if it
// is complete.
func (r *reader) publish(w *whole, began time.Time, complete bool) {
	w.at, w.took = time.Now(), time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.whole == nil
	r.whole = w
	if first {
		close(r.first)
	}
	r.reading = !complete
}

// fill reads what belongs to a whole reading.
func (r *reader) fill(ctx context.Context, w, last *whole, built map[string]time.Time) error {
	guard, table := r.client.Guard(), r.client.Table()
	found, err := usage.Status(ctx, guard)
	if err != nil {
		return err
	}
	keys, err := usage.FullestKeys(ctx, guard, table.Accounts(), maxShownKeys)
	if err != nil {
		return err
	}
	w.keyed = keys.Fullest
	for i := range found {
		b := usage.NewBudgetReport(&found[i])
		b.Keys = keys.CountOf(&found[i].Budget)
		w.budgets[[2]string{b.Account, b.Name}] = b
	}
	now := time.Now()
	if len(found) > 0 {
		now = found[0].At
	}
	for _, account := range table.Accounts() {
		a, err := newActivity(ctx, r.client.Log(), account, now)
		if err != nil {
			return err
		}
		if at, ok := built[account]; ok {
			a.builtAt = at
		}
		w.activities[account] = a
		log, err := usage.Log(ctx, guard, account)
		if err != nil {
			return err
		}
		w.logs = append(w.logs, log)
	}
	w.planned, w.planErr = r.readPlan(now)
	r.explain(ctx, w, last)
	return nil
}

// redact returns an error without secrets.
func (r *reader) redact(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.options.Redact(err.Error()))
}

func (r *reader) close() {
	if r.catalog != nil {
		r.catalog.Close()
		r.catalog = nil
	}
}

// total returns what all series of an hour add up to.
func total(of map[series]quota.Units) (sum quota.Units) {
	for _, units := range of {
		sum += units
	}
	return sum
}
