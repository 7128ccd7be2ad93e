package usage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// snapshot is the state of an account that a correction starts from: the
// budgets of one measure and the newest entries. Budgets are known by their
// index in balances.
type snapshot struct {
	guard      *quota.Guard
	account    string
	measure    quota.Measure
	balances   []quota.Balance
	index      map[string]int      // of each budget, by name
	targets    map[int]quota.Units // the readings, by budget
	reconciled map[int]bool        // budgets without a reading that were reconciled within their current window
	entries    []quota.Entry       // those that may be changed, newest first
}

// maxEntries is how many of the newest entries may be changed, so that a
// correction ends within the 10 seconds for which its lock holds.
const maxEntries = 256

// newSnapshot reads the budgets and the log, and sets Before of the results.
func newSnapshot(ctx context.Context, guard *quota.Guard, account string, measure quota.Measure,
	named []*Correction) (*snapshot, error) {
	s := &snapshot{guard: guard, account: account, measure: measure, index: map[string]int{},
		targets: map[int]quota.Units{}, reconciled: map[int]bool{}}
	balances, err := guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	for _, balance := range balances {
		isInFlight := balance.Budget.Window.Kind() == engine.InFlight // which no correction changes
		if balance.Budget.Account == account && balance.Budget.Measure == measure && !isInFlight {
			s.index[balance.Budget.Name] = len(s.balances)
			s.balances = append(s.balances, balance)
		}
	}
	for _, r := range named {
		i := s.index[r.Balance.Budget.Name]
		s.targets[i] = r.Target
		r.Before = s.balances[i].Used
	}
	if len(s.balances) == 0 {
		return s, nil
	}
	since := s.balances[0].Since
	for i := range s.balances {
		if at := s.balances[i].Since; at.Before(since) {
			since = at
		}
	}
	query := quota.Query{Account: account, Since: since, Newest: true}
	for e, err := range guard.Entries(ctx, query) {
		if err != nil {
			return nil, err
		}
		s.entries = append(s.entries, e)
		if len(s.entries) == maxEntries {
			break
		}
	}
	for sum, err := range guard.Sums(ctx, query) {
		if err != nil {
			return nil, err
		}
		s.findReconciled(&sum)
	}
	return s, nil
}

// findReconciled sets reconciled for the budget that a sum of notes says was
// reconciled in its window, if any.
func (s *snapshot) findReconciled(sum *quota.Sum) {
	if sum.Kind != quota.EntryNote || sum.Method != doneMethod {
		return
	}
	for i := range s.balances {
		_, named := s.targets[i]
		done := sum.Caller.Job == remarkJob(s.balances[i].Budget.Name) && !sum.Last.Before(s.balances[i].Since)
		if done && !named {
			s.reconciled[i] = true
		}
	}
}

// counts reports whether a budget counts an entry in its present window.
func (s *snapshot) counts(budget int, e *quota.Entry) bool {
	b := &s.balances[budget]
	return b.Coverage.Covers(e.Method, e.Caller.Lane, e.Caller.Region) && !e.At.Before(b.Since)
}

// noted returns how much of a budget is notes among the newest entries.
func (s *snapshot) noted(budget int) (sum quota.Units) {
	for i := range s.entries {
		e := &s.entries[i]
		if e.Kind == quota.EntryNote && s.counts(budget, e) {
			sum += e.Amounts().Of(s.measure)
		}
	}
	return sum
}

// addRemark records a remark about a budget.
func (s *snapshot) addRemark(ctx context.Context, method, budget string) error {
	return s.guard.Note(ctx, quota.Note{Call: quota.Call{Account: s.account, Method: method,
		Caller: quota.Caller{Lane: ReconcileLane, Job: remarkJob(budget)}}})
}

// remarkJob returns the job of remarks about a budget.
func remarkJob(budget string) string {
	return human.Cut(ReconcileJob+":"+budget, quota.MaxLabel)
}

// budgetSet says for each budget of a snapshot whether it is in the set.
type budgetSet []bool

// key returns a text that is equal for equal sets.
func (s budgetSet) key() string { return fmt.Sprint([]bool(s)) }

// covering returns the budgets that count a call.
func (s *snapshot) covering(method string, caller quota.Caller) budgetSet {
	covers := make(budgetSet, len(s.balances))
	for i := range covers {
		covers[i] = s.balances[i].Coverage.Covers(method, caller.Lane, caller.Region)
	}
	return covers
}

// named returns those of the budgets that have a reading.
func (s *snapshot) named(covers budgetSet) budgetSet {
	named := make(budgetSet, len(covers))
	for i := range s.targets {
		named[i] = covers[i]
	}
	return named
}

// arguments returns the readings as ration ledger reconcile takes them, with N
// for further budgets. Those with the least usage come first.
func (s *snapshot) arguments(further []string) string {
	type number struct {
		used quota.Units
		text string
	}
	var numbers []number
	for i, used := range s.targets {
		numbers = append(numbers,
			number{used, human.ShellQuote(s.balances[i].Budget.Name) + "=" + s.measure.Number(used)})
	}
	for _, name := range further {
		numbers = append(numbers, number{s.balances[s.index[name]].Used, human.ShellQuote(name) + "=N"})
	}
	slices.SortFunc(numbers, func(x,
		y number) int {
		return cmp.Or(cmp.Compare(x.used, y.used), cmp.Compare(x.text, y.text))
	})
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = n.text
	}
	return strings.Join(words, " ")
}

// raised returns the budgets without a reading whose usage the changes raise.
func (s *snapshot) raised(c *changes) []string {
	names := []string{}
	for i := range s.balances {
		if _, named := s.targets[i]; !named && c.net(i) > 0 {
			names = append(names, s.balances[i].Budget.Name)
		}
	}
	return names
}

// apply writes the changes to the ledger. It adds before it removes, so that
// nothing is missing if it is interrupted, and reports whether it removed
// anything.
func (s *snapshot) apply(ctx context.Context, c *changes) (lowered bool, err error) {
	for _, added := range c.added {
		if err := s.add(ctx, added.call, added.amount); err != nil {
			return false, err
		}
	}
	for i := range c.removed {
		r := &c.removed[i]
		if err := s.remove(ctx, &r.entry, r.amount); err != nil {
			return lowered, err
		}
		lowered = true
	}
	return lowered, nil
}

// add records an amount as corrections.
func (s *snapshot) add(ctx context.Context, call quota.Call, amount quota.Units) error {
	for entered := quota.Units(0); entered < amount; {
		part := min(amount-entered, quota.MaxUnits)
		amounts := s.measure.Only(part)
		note := quota.Note{Call: call, Calls: amounts.Calls, Kind: quota.EntryCorrection}
		note.Units, note.Measures = amounts.Units, amounts.Named
		if err := s.guard.Note(ctx, note); err != nil {
			return fmt.Errorf("after %s of %s %s: %w", s.measure.Number(entered), s.measure.Number(amount), s.measure,
				err)
		}
		entered += part
	}
	return nil
}

// remove lowers one entry by an amount. Only a call can be settled; of any
// other entry, what remains is recorded again before it is refunded, so that
// nothing is missing if remove is interrupted.
func (s *snapshot) remove(ctx context.Context, e *quota.Entry, amount quota.Units) error {
	isCall := e.Kind == quota.EntryCall
	left := e.Amounts().Plus(s.measure.Only(-amount))
	switch {
	case isCall && s.measure != quota.Calls:
		return s.guard.SettleEntry(ctx, s.account, e.ID, left)
	case isCall || left.IsZero(): // a call goes as a whole, with its units
		return s.guard.SettleEntry(ctx, s.account, e.ID, quota.Amounts{})
	}
	rest := quota.Note{Call: quota.Call{Account: s.account, Method: e.Method, Units: left.Units, Measures: left.Named,
		Caller: e.Caller},
		Calls: left.Calls, Kind: quota.EntryCorrection}
	if err := s.guard.Note(ctx, rest); err != nil {
		return err
	}
	if err := s.guard.SettleEntry(ctx, s.account, e.ID, quota.Amounts{}); err != nil {
		return fmt.Errorf("%d units and %d calls are counted twice; reconcile again, which takes them off: %w",
			rest.Units, rest.Calls, err)
	}
	return nil
}
