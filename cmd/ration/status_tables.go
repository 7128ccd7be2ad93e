package main

import (
	"fmt"
	"slices"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// statusTable is status for people; err is why it is not whole, or nil.
func (a *app) statusTable(r *inspect.Report, err error) {
	for i := range r.Moves {
		a.paragraph("", "%s\n", r.Moves[i].Moves())
	}
	for _, refused := range r.Refusing {
		a.paragraph("", "%s\n", refused.Text)
	}
	fmt.Fprintln(a.stdout, a.ledgerLine(r.Ledger, r.LedgerExists))
	fmt.Fprintf(a.stdout, "at      %s\n", human.Time(r.At))
	a.outageLine(err)
	if len(r.Budgets) > 0 {
		fmt.Fprintln(a.stdout)
		a.budgetTable(r)
		a.keyedTable(r)
	}
	for _, group := range r.Remarks() {
		fmt.Fprintln(a.stdout)
		for _, remark := range group {
			a.paragraph("", "%s", remark)
		}
	}
	a.passTable(r)
	a.spenderTable(r)
}

// ledgerLine names a ledger, and says if there is none yet or, where this host
// was granted calls on it, any more.
func (a *app) ledgerLine(name string, exists bool) string {
	switch {
	case exists:
		return "ledger  " + name
	case len(a.forgotten) > 0:
		return "ledger  " + name + "  (none there any more)"
	}
	return "ledger  " + name + "  (none there yet: nothing was spent)"
}

// outageLine prints what is known of an outage, without its reason if that is
// err, which is printed at the end.
func (a *app) outageLine(err error) {
	state := a.setup().LedgerState()
	if isLedgerError(err) {
		state.Reason = nil
	}
	if down := state.String(); down != "" {
		fmt.Fprintf(a.stdout, "outage  %s\n", down)
	}
}

// budgetTable shows what the budgets hold.
func (a *app) budgetTable(r *inspect.Report) {
	isReserved := func(b *usage.BudgetReport) bool { return b.Reserved > 0 }
	headings := []string{"budget", "used", "limit", "left", "", "window", "next to return"}
	hasReserved := slices.ContainsFunc(r.Budgets, isReserved)
	if hasReserved {
		headings = slices.Insert(headings, 2, "reserved")
	}
	t := a.table(headings...)
	for _, b := range r.Budgets {
		window := b.Window
		if b.Shadow {
			window += " (shadow)"
		}
		cells := []any{b.Name, b.Number(b.Used), b.LimitText, b.Number(b.Remaining), b.Measure, window,
			inspect.ReturnText(b, r.At)}
		if hasReserved {
			cells = slices.Insert(cells, 2, any(b.Number(b.Reserved)))
		}
		t.Row(cells...)
	}
	t.Print()
}

// spenderTable shows who spent the budgets.
func (a *app) spenderTable(r *inspect.Report) {
	if !slices.ContainsFunc(r.Budgets,
		func(b *usage.BudgetReport) bool { return len(b.ByMethod) > 0 || len(b.Floors) > 0 }) {
		return
	}
	fmt.Fprintln(a.stdout)
	t := a.table("budget", "by", "who spent it")
	for _, b := range r.Budgets {
		name := b.Name
		inspect.EachDimension(&b.Attribution, b.Measure, 8, func(by, who string) {
			t.Row(name, by, who)
			name = ""
		})
		if len(b.Floors) > 0 {
			t.Row(name, "floor", inspect.FloorText(b))
		}
	}
	t.Print()
}

// keyedTable shows the fullest keys.
func (a *app) keyedTable(r *inspect.Report) {
	if len(r.Keyed) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	t := a.table("key", "budget", "used", "limit", "left", "", "next to return")
	for _, k := range r.Keyed {
		next := "-"
		if k.NextFreeAt != nil {
			next = fmt.Sprintf("%s (in %s)", a.clock(*k.NextFreeAt), human.Duration(k.NextFreeAt.Sub(r.At)))
		}
		number := quota.Measure(k.Measure).Number
		t.Row(human.Name(k.Key), human.Name(k.Budget), number(k.Used), number(k.Limit), number(k.Remaining), k.Measure,
			next)
	}
	t.Print()
	for _, account := range r.MoreKeys {
		fmt.Fprintf(a.stdout, "account %s has more than %d keys; these are the fullest of the first\n",
			human.Name(account), quota.MaxKeys)
	}
}

// passTable shows the passes that a host has, and those that another one
// has done.
func (a *app) passTable(r *inspect.Report) {
	t, shown := a.table("region", "pass", "host", "pid", "since", "until"), false
	for _, p := range r.Passes {
		switch {
		case p.Until != nil:
			t.Row(human.Name(p.Region), a.clock(p.Tick), human.Name(p.Host), p.PID, a.clock(p.Since), a.clock(*p.Until))
		case !p.Here:
			t.Row(human.Name(p.Region), a.clock(p.Tick), human.Name(p.Host), p.PID, a.clock(p.Since),
				"done "+a.clock(*p.DoneAt))
		default:
			continue
		}
		shown = true
	}
	if shown {
		fmt.Fprintln(a.stdout)
		t.Print()
	}
}
