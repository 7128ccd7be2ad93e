package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// books are the budgets of one account and measure, with what a correction of
// them depends on. Budgets are known by their place in balances.
type books struct {
	guard    *quota.Guard
	account  string
	measure  quota.Measure
	balances []quota.Balance
	place    map[string]int      // by name
	targets  map[int]quota.Units // of the budgets that have a reading
	marked   map[int]bool        // reconciled within their present window, and without a reading
	entries  []quota.Entry       // the newest that may be lowered, newest first
}

// open reads the budgets and the log, and sets what was used before.
func open(ctx context.Context, guard *quota.Guard, account string, measure quota.Measure, named []*Result) (*books, error) {
	b := &books{guard: guard, account: account, measure: measure, place: map[string]int{}, targets: map[int]quota.Units{}, marked: map[int]bool{}}
	balances, err := guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	for _, balance := range balances {
		if balance.Budget.Account == account && balance.Budget.Measure == measure {
			b.place[balance.Budget.Name] = len(b.balances)
			b.balances = append(b.balances, balance)
		}
	}
	for _, r := range named {
		i := b.place[r.Balance.Budget.Name]
		b.targets[i], r.Before = r.Target, b.balances[i].Used
	}
	since := b.since(0)
	for i := range b.balances {
		if at := b.since(i); at.Before(since) {
			since = at
		}
	}
	query := quota.Query{Account: account, Since: since, Newest: true}
	for e, err := range guard.Ledger().Entries(ctx, query) {
		if err != nil {
			return nil, err
		}
		if b.entries = append(b.entries, e); len(b.entries) == quota.MaxSettle {
			break
		}
	}
	for sum, err := range guard.Ledger().Sums(ctx, query) {
		if err != nil {
			return nil, err
		}
		b.mark(&sum)
	}
	return b, nil
}

// since is when the window of a budget began.
func (b *books) since(i int) time.Time {
	balance := &b.balances[i]
	if balance.Since.IsZero() {
		return balance.At.Add(-balance.Budget.Window.Horizon())
	}
	return balance.Since
}

// mark notes a budget that was reconciled before.
func (b *books) mark(sum *quota.Sum) {
	if sum.Kind != quota.EntryNote || sum.Method != markMethod {
		return
	}
	for i := range b.balances {
		if _, named := b.targets[i]; !named && sum.Caller.Job == jobOf(b.balances[i].Budget.Name) && !sum.Last.Before(b.since(i)) {
			b.marked[i] = true
		}
	}
}

// note records a remark about a budget.
func (b *books) note(ctx context.Context, method, budget string) error {
	return b.guard.Note(ctx, quota.Note{Call: quota.Call{Account: b.account, Method: method, Caller: quota.Caller{Lane: Lane, Job: jobOf(budget)}}})
}

// jobOf is the job of notes about a budget.
func jobOf(budget string) string {
	job := Job + ":" + budget
	if len(job) > quota.MaxLabel {
		job = strings.ToValidUTF8(job[:quota.MaxLabel], "")
	}
	return job
}

// coverage says of each budget of the books whether it counts something.
type coverage []bool

// key returns c as text.
func (c coverage) key() string { return fmt.Sprint([]bool(c)) }

// covering returns which budgets count a call.
func (b *books) covering(method string, caller quota.Caller) coverage {
	covers := make(coverage, len(b.balances))
	for i := range covers {
		covers[i] = b.balances[i].Coverage.Covers(method, caller)
	}
	return covers
}

// named returns which of the covering budgets have a reading.
func (b *books) named(covers coverage) coverage {
	named := make(coverage, len(covers))
	for i := range b.targets {
		named[i] = covers[i]
	}
	return named
}

// amount is what an entry counts for.
func (b *books) amount(e *quota.Entry) quota.Units {
	if b.measure == quota.Calls {
		return e.Calls
	}
	return e.Units
}

// together is a command line with the readings, and N for further budgets, those
// with the fewest used first.
func (b *books) together(also []string) string {
	type number struct {
		used quota.Units
		text string
	}
	var numbers []number
	for i, used := range b.targets {
		numbers = append(numbers, number{used, fmt.Sprintf("%s=%d", b.balances[i].Budget.Name, used)})
	}
	for _, name := range also {
		numbers = append(numbers, number{b.balances[b.place[name]].Used, name + "=N"})
	}
	slices.SortFunc(numbers, func(x, y number) int { return cmp.Or(cmp.Compare(x.used, y.used), cmp.Compare(x.text, y.text)) })
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = n.text
	}
	return strings.Join(words, " ")
}

// raised returns the budgets without a reading that hold more after a plan.
func (b *books) raised(p *plan) []string {
	names := []string{}
	for i := range b.balances {
		if _, named := b.targets[i]; !named && p.net(i) > 0 {
			names = append(names, b.balances[i].Budget.Name)
		}
	}
	return names
}

// enter does what was planned: it adds first, so that nothing is missing if it
// is cut short. It reports whether something was taken off.
func (b *books) enter(ctx context.Context, p *plan) (lowered bool, err error) {
	for _, added := range p.added {
		if err := b.add(ctx, added.call, added.amount); err != nil {
			return false, err
		}
	}
	for i := range p.removed {
		r := &p.removed[i]
		err := b.remove(ctx, &r.entry, r.amount)
		if errors.Is(err, quota.ErrStays) {
			r.amount = 0
			continue
		}
		if err != nil {
			return lowered, err
		}
		lowered = true
	}
	return lowered, nil
}

// add enters an amount as corrections.
func (b *books) add(ctx context.Context, call quota.Call, amount quota.Units) error {
	for entered := quota.Units(0); entered < amount; {
		part := min(amount-entered, quota.MaxUnits)
		note := quota.Note{Call: call, Kind: quota.EntryCorrection}
		if b.measure == quota.Calls {
			note.Calls = part
		} else {
			note.Units = part
		}
		if err := b.guard.Note(ctx, note); err != nil {
			return fmt.Errorf("after %d of %d %s: %w", entered, amount, b.measure, err)
		}
		entered += part
	}
	return nil
}

// remove takes an amount off one entry. Only a call can be settled. Another
// entry is refunded whole, and the rest of it entered anew.
func (b *books) remove(ctx context.Context, e *quota.Entry, amount quota.Units) error {
	receipt := quota.Receipt{Account: b.account, ID: e.ID, At: e.At}
	isCall := e.Kind == quota.EntryCall
	if isCall && b.measure == quota.ByUnits {
		return b.guard.Ledger().Settle(ctx, receipt, e.Units-amount)
	}
	if err := b.guard.Ledger().Refund(ctx, receipt); err != nil {
		return err
	}
	if isCall { // a call is taken off with its units
		return nil
	}
	rest := quota.Note{Call: quota.Call{Account: b.account, Method: e.Method, Units: e.Units, Caller: e.Caller}, Calls: e.Calls, Kind: quota.EntryCorrection}
	if b.measure == quota.Calls {
		rest.Calls -= amount
	} else {
		rest.Units -= amount
	}
	if rest.Units == 0 && rest.Calls == 0 {
		return nil
	}
	if err := b.guard.Note(ctx, rest); err != nil {
		return fmt.Errorf("%d units and %d calls were taken off that belong there: %w", rest.Units, rest.Calls, err)
	}
	return nil
}
