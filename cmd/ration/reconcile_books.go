package main

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

// reconcileMark is the method of the line that every reconciliation of a budget
// leaves in the log, under the job reconcile:BUDGET.
const reconcileMark = "ledger.reconcile"

// books are the budgets of one account and measure with all that a correction
// of them must know.
type books struct {
	measure  quota.Measure
	balances []quota.Balance
	covers   []*quota.Coverage // of each balance
	place    map[string]int    // of a budget, by its name
	targets  map[int]quota.Units
	marked   map[int]bool // reconciled before, within their present window, and not named now
	entries  []quota.Entry
}

// openBooks reads the budgets and the log. What is older than what may be
// settled is read for the marks of earlier reconciliations only.
func (s *spending) openBooks(ctx context.Context, named []*correction, measure quota.Measure) (*books, error) {
	b := &books{measure: measure, place: map[string]int{}, targets: map[int]quota.Units{}, marked: map[int]bool{}}
	balances, err := s.guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	account := named[0].Account
	for _, balance := range balances {
		if balance.Budget.Account == account && balance.Budget.Measure == measure {
			b.place[balance.Budget.Name] = len(b.balances)
			b.balances, b.covers = append(b.balances, balance), append(b.covers, balance.Coverage)
		}
	}
	for _, c := range named {
		b.targets[b.place[c.Budget]] = c.target
	}
	since := b.since(0)
	for i := range b.balances {
		if at := b.since(i); at.Before(since) {
			since = at
		}
	}
	for e, err := range s.ledger.Entries(ctx, quota.Query{Account: account, Since: since}) {
		if err != nil {
			return nil, err
		}
		b.mark(e)
		if b.entries = append(b.entries, e); len(b.entries) > 2*quota.MaxSettle {
			b.entries = slices.Delete(b.entries, 0, quota.MaxSettle)
		}
	}
	b.entries = b.entries[max(0, len(b.entries)-quota.MaxSettle):]
	return b, nil
}

func (b *books) used(budget string) quota.Units { return b.balances[b.place[budget]].Used }

// since is when the window of a budget began.
func (b *books) since(i int) time.Time {
	window := attribution{balance: b.balances[i]}
	return window.since()
}

// mark notes a budget that was reconciled before.
func (b *books) mark(e quota.Entry) {
	if e.Method != reconcileMark {
		return
	}
	for i := range b.balances {
		if _, named := b.targets[i]; !named && e.Caller.Job == jobOf(reconciled, b.balances[i].Budget.Name) && !e.At.Before(b.since(i)) {
			b.marked[i] = true
		}
	}
}

// coverage says of each budget of the books whether it counts something.
type coverage []bool

func (c coverage) String() string {
	text := make([]byte, len(c))
	for i, covers := range c {
		if text[i] = '0'; covers {
			text[i] = '1'
		}
	}
	return string(text)
}

// covering returns which budgets count a call.
func (b *books) covering(method string, caller quota.Caller) coverage {
	covers := make(coverage, len(b.balances))
	for i := range covers {
		covers[i] = b.covers[i].Covers(method, caller)
	}
	return covers
}

// amount is what an entry counts for.
func (b *books) amount(e quota.Entry) quota.Units {
	if b.measure == quota.Calls {
		return e.Calls
	}
	return e.Units
}

// kind is a kind of correction that may be entered.
type kind struct {
	call   quota.Call
	covers coverage
}

// kinds returns kinds of corrections, one for each set of named budgets that
// there is: of several the one that touches the fewest other budgets, those that
// were reconciled before least of all.
func (b *books) kinds(account string) []kind {
	methods, lanes, regions := []string{reconciled}, []string{manualLane}, []string{""}
	for i := range b.balances {
		budget := &b.balances[i].Budget
		methods = append(append(methods, budget.Methods...), budget.Except...)
		lanes, regions = append(lanes, budget.Lanes...), append(regions, budget.Regions...)
	}
	best := map[string]kind{}
	var order []string
	for _, method := range distinct(methods) {
		for _, lane := range distinct(lanes) {
			for _, region := range distinct(regions) {
				caller := quota.Caller{Lane: lane, Job: reconciled, Region: region}
				one := kind{quota.Call{Account: account, Method: method, Caller: caller}, b.covering(method, caller)}
				key := b.named(one.covers).String()
				known, ok := best[key]
				if !ok {
					order = append(order, key)
				}
				if !ok || b.touched(one.covers) < b.touched(known.covers) {
					best[key] = one
				}
			}
		}
	}
	var all []kind
	for _, key := range order {
		if strings.Contains(key, "1") {
			all = append(all, best[key])
		}
	}
	return all
}

// distinct returns the words without repetitions, in their order.
func distinct(words []string) []string {
	var all []string
	for _, word := range words {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// named returns which of the covering budgets are named.
func (b *books) named(covers coverage) coverage {
	named := make(coverage, len(covers))
	for i := range b.targets {
		named[i] = covers[i]
	}
	return named
}

// touched says how much a coverage concerns budgets that are not named.
func (b *books) touched(covers coverage) (weight int) {
	for i, covered := range covers {
		if _, named := b.targets[i]; !covered || named {
			continue
		}
		if weight++; b.marked[i] {
			weight += len(covers)
		}
	}
	return weight
}

// permit refuses steps that would break what was said of other budgets, or
// count into two windows. Of a budget that was never named an earlier correction
// may be moved: it was counted there for want of a better place.
func (b *books) permit(s *steps) error {
	var also []string
	for i := range b.balances {
		if b.marked[i] && s.net(i) != 0 {
			also = append(also, b.balances[i].Budget.Name)
		}
	}
	if len(also) > 0 {
		return &usageError{fmt.Errorf("this would change %s, reconciled before, so that units might be counted twice; give all of them what the console says now: ration ledger reconcile %s",
			safe(strings.Join(also, ", ")), b.together(also))}
	}
	for _, added := range s.added {
		for i, covered := range added.covers {
			if covered {
				if err := betweenDays(&b.balances[i].Budget, b.balances[i].At); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// together is a command line for the named budgets and others, narrow ones
// first, which have the fewest used.
func (b *books) together(also []string) string {
	type number struct {
		name string
		used quota.Units
		text string
	}
	var all []number
	for i, used := range b.targets {
		all = append(all, number{b.balances[i].Budget.Name, used, fmt.Sprint(used)})
	}
	for _, name := range also {
		all = append(all, number{name, b.used(name), "N"})
	}
	slices.SortFunc(all, func(x, y number) int { return cmp.Or(cmp.Compare(x.used, y.used), cmp.Compare(x.name, y.name)) })
	var words []string
	for _, n := range all {
		words = append(words, safe(n.name)+"="+n.text)
	}
	return strings.Join(words, " ")
}

// raised returns the budgets that are not named and hold more afterwards.
func (b *books) raised(s *steps) []string {
	names := []string{}
	for i := range b.balances {
		if _, named := b.targets[i]; !named && s.net(i) > 0 {
			names = append(names, b.balances[i].Budget.Name)
		}
	}
	return names
}

// enter does what was planned: it adds first, so that nothing is missing if it
// is cut short. It reports whether something was taken off.
func (s *spending) enter(ctx context.Context, b *books, plan *steps) (lowered bool, err error) {
	for _, added := range plan.added {
		if err := s.add(ctx, b.measure, added.call, added.amount); err != nil {
			return false, err
		}
	}
	for i := range plan.removed {
		r := &plan.removed[i]
		err := s.remove(ctx, b, r.entry, r.amount)
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

// add enters a correction of units, or of calls.
func (s *spending) add(ctx context.Context, measure quota.Measure, call quota.Call, amount quota.Units) error {
	for entered := quota.Units(0); entered < amount; {
		part := min(amount-entered, quota.MaxUnits)
		note := quota.Note{Call: call, Kind: quota.EntryCorrection}
		if measure == quota.ByUnits {
			note.Units = part
		} else {
			note.Units, note.Calls = 0, part
		}
		if err := s.guard.Note(ctx, note); err != nil {
			return fmt.Errorf("after %d of %d %s: %w", entered, amount, measure, err)
		}
		entered += part
	}
	return nil
}

// remove takes an amount off one entry. What is not a call cannot be settled: it
// is given back whole, and what was too much of that is entered anew.
func (s *spending) remove(ctx context.Context, b *books, e quota.Entry, amount quota.Units) error {
	account := b.balances[0].Budget.Account
	receipt := quota.Receipt{Account: account, ID: e.ID, At: e.At}
	isCall := e.Kind == quota.EntryCall
	if isCall && b.measure == quota.ByUnits {
		return s.allowance.Settle(ctx, receipt, e.Units-amount)
	}
	if err := s.allowance.Refund(ctx, receipt); err != nil {
		return err
	}
	rest := quota.Note{Call: quota.Call{Account: account, Method: e.Method, Units: e.Units, Caller: e.Caller}, Calls: e.Calls, Kind: quota.EntryCorrection}
	switch {
	case isCall: // calls are taken off whole, with their units
		return nil
	case b.measure == quota.ByUnits:
		rest.Units -= amount
	default:
		rest.Calls -= amount
	}
	if rest.Units == 0 && rest.Calls == 0 {
		return nil
	}
	if err := s.guard.Note(ctx, rest); err != nil {
		return fmt.Errorf("%d units and %d calls were taken off that belong there: %w", rest.Units, rest.Calls, err)
	}
	return nil
}
