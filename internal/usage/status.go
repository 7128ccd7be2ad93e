package usage

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// BudgetStatus is the balance of a budget and who spent it.
type BudgetStatus struct {
	quota.Balance
	Attribution
	Drift
	Forecast
	// Returns lists when the next units become free, at most three times,
	// soonest first. It is empty for windows that are neither sliding nor
	// calendar ones.
	Returns []Return
	// Refused lists the methods of the account of which calls were refused in
	// the last day, by this budget or another. Whether they would be refused
	// now, Guard.ProbeAll says.
	Refused []*MethodRefusal

	spenders spenders
}

// Largest returns who spent most of what the window holds; of a budget that
// each key has for itself, most of what it holds for a key.
func (s *BudgetStatus) Largest(key string) LargestCaller {
	if s.Budget.PerKey {
		return s.spenders.ofKey(key).largest()
	}
	return s.spenders.largest()
}

// Return says that Units more have become free by At than by the Return before.
type Return struct {
	At    time.Time   `json:"at"`
	Units quota.Units `json:"units"`
}

// maxReturns is the most returns that are listed.
const maxReturns = 3

// returnSpan is the time within which units that become free are one return, or
// a 60th of the window if that is shorter.
const returnSpan = time.Minute

// Status returns the state of every budget of a guard, in the guard's order.
func Status(ctx context.Context, guard *quota.Guard) ([]BudgetStatus, error) {
	balances, err := guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	statuses := make([]BudgetStatus, len(balances))
	accounts := map[string][]*BudgetStatus{}
	for i, b := range balances {
		statuses[i].Balance = b
		accounts[b.Budget.Account] = append(accounts[b.Budget.Account], &statuses[i])
	}
	for account, budgets := range accounts {
		if err := readLog(ctx, guard, account, budgets); err != nil {
			return nil, err
		}
	}
	return statuses, nil
}

// readLog sets what the log of an account says of its budgets. It reads the log
// once.
func readLog(ctx context.Context, guard *quota.Guard, account string, budgets []*BudgetStatus) error {
	oldest, err := (&LogReader{Guard: guard}).oldest(ctx, account)
	if err != nil {
		return err
	}
	scans, refused := make([]*scan, len(budgets)), newRefusals(budgets)
	since := budgets[0].At.Add(-day)
	for i, s := range budgets {
		scans[i] = newScan(s, oldest)
		since = earlier(since, earlier(s.Since, scans[i].paceSince))
	}
	for e, err := range guard.Entries(ctx, quota.Query{Account: account, Since: since}) {
		if err != nil {
			return err
		}
		refused.add(&e)
		for _, s := range scans {
			s.add(&e)
		}
	}
	for _, s := range scans {
		slices.SortFunc(s.Returns, func(x, y Return) int { return x.At.Compare(y.At) })
		s.Refused = refused.sorted()
		s.forecast()
	}
	return nil
}

// scan is what the entries of a log add up to for one budget.
type scan struct {
	*BudgetStatus
	oldest    time.Time // entry of the log; zero without entries
	paceSince time.Time
	spent     quota.Units   // since then
	leaving   []quota.Units // by the steps of the time to come; of a sliding window
	step      time.Duration
	spanEnd   time.Time // of the newest of Returns
}

// day is how far back refusals are followed.
const day = 24 * time.Hour

// steps is the most steps in which a window is followed into the future.
const steps = 4096

func newScan(b *BudgetStatus, oldest time.Time) *scan {
	over := min(paceOver(&b.Budget), b.At.Sub(oldest))
	b.spenders = spenders{}
	s := &scan{BudgetStatus: b, oldest: oldest, paceSince: b.At.Add(time.Microsecond - over)}
	if length := b.Budget.Window.Length(); length > 0 {
		s.step = max(length/steps, time.Second)
		s.leaving = make([]quota.Units, (length+s.step-1)/s.step)
	}
	return s
}

// add adds an entry. Entries are added in the order of their timestamps.
func (s *scan) add(e *quota.Entry) {
	n := amount(s.Coverage, e.Method, e.Caller, e.Amounts())
	if n == 0 {
		return
	}
	if s.Budget.Window.Kind() == engine.InFlight { // calls that have ended do not count
		return
	}
	isAdjusted := e.Kind == quota.EntryCorrection || e.Kind == quota.EntryNote
	isOfBalance := !s.Budget.PerKey || e.Key == ""
	if isOfBalance && !isAdjusted && !e.At.Before(s.paceSince) { // they enter at once what was spent over hours or days
		s.spent += n
	}
	if e.At.Before(s.Since) {
		return
	}
	s.Attribution.add(e, n)
	s.spenders.add(e.Kind, e.Caller, e.Key, n)
	s.Drift.add(e.Kind, n)
	if !isOfBalance {
		return
	}
	switch window := s.Budget.Window; window.Kind() {
	case engine.Calendar:
		s.addReturn(returnsAt(window, e.At), n)
	case engine.Sliding:
		s.addToSpan(e.At, n)
		begin := s.At.Add(time.Microsecond - window.Length())
		if i := int(e.At.Sub(begin) / s.step); i >= 0 && i < len(s.leaving) {
			s.leaving[i] += n
		}
	}
}

// addToSpan adds units of a sliding window to the newest of its returns. A
// return is what becomes free from its first entry on for returnSpan. The first
// one is what becomes free at one time, that of a refusal of a small call.
func (s *scan) addToSpan(at time.Time, n quota.Units) {
	window := s.Budget.Window
	if len(s.Returns) == 0 || !at.Before(s.spanEnd) {
		if len(s.Returns) == maxReturns {
			return
		}
		s.Returns = append(s.Returns, Return{})
		s.spanEnd = at.Add(time.Microsecond)
		if len(s.Returns) > 1 {
			s.spanEnd = at.Add(min(returnSpan, window.Length()/60))
		}
	}
	r := &s.Returns[len(s.Returns)-1]
	r.At = returnsAt(window, at)
	r.Units += n
}

// addReturn adds units that become free at a given time.
func (s *BudgetStatus) addReturn(at time.Time, units quota.Units) {
	i := slices.IndexFunc(s.Returns, func(r Return) bool { return r.At.Equal(at) })
	if i < 0 {
		s.Returns = append(s.Returns, Return{at, units})
		return
	}
	s.Returns[i].Units += units
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// returnsAt returns when an exact window no longer counts an entry with a given
// timestamp.
func returnsAt(window quota.Window, stamp time.Time) time.Time {
	if window.Kind() == engine.Sliding {
		return stamp.Add(window.Length()).UTC()
	}
	day := window.Day(stamp)
	if stamp.Before(day.Next) {
		return day.Opens
	}
	return day.Reopens // it counts for both days
}
