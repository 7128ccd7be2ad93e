package metrics

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/quota"
)

// result is how a call was decided, an index of results.
type result int

// results are the values of label result of ration_decisions_total.
var results = [...]string{"granted", "recorded", "spent", "cooldown", "queue", "in_flight", "share", "pace",
	"never_fits", "in_doubt",
	"ledger_down", "ledger_busy", "ledger_misconfigured", "canceled", "error"}

const (
	granted result = iota
	recorded
	spent
	cooldown
	queue
	inFlight
	share
	pace
	neverFits
	inDoubt
	ledgerDown
	ledgerBusy
	ledgerMisconfigured
	canceled
	failed
)

// resultOf returns the result of a decision, and the budget that decided it.
func resultOf(d *quota.Decision) (r result, budget string) {
	err := d.Err
	switch {
	case err == nil && d.Recorded:
		return recorded, ""
	case err == nil:
		return granted, ""
	}
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		switch refused.Reason {
		case quota.ReasonCooldown:
			return cooldown, refused.Budget
		case quota.ReasonQueue:
			return queue, refused.Budget
		case quota.ReasonInFlight:
			return inFlight, refused.Budget
		case quota.ReasonShare:
			return share, refused.Budget
		case quota.ReasonPace:
			return pace, refused.Budget
		}
		return spent, refused.Budget
	}
	if never, ok := errors.AsType[*quota.NeverFitsError](err); ok {
		return neverFits, never.Budget
	}
	return resultOfLedger(err), ""
}

// resultOfLedger returns the result of an error that is not a refusal.
func resultOfLedger(err error) result {
	for _, known := range []struct {
		err error
		result
	}{
		{quota.ErrInDoubt, inDoubt}, {quota.ErrLedgerConfig, ledgerMisconfigured},
		{quota.ErrLedgerDown, ledgerDown}, {quota.ErrLedgerBusy, ledgerBusy},
		{context.Canceled, canceled}, {context.DeadlineExceeded, canceled},
	} {
		if errors.Is(err, known.err) {
			return known.result
		}
	}
	return failed
}

// counts counts decisions. Once a kind of call has been seen, counting one
// takes a look-up and an addition for each budget, without a lock.
type counts struct {
	accounts map[string][]int // the indexes of each account's budgets
	budgets  []quota.Budget
	position []int                  // of each budget among those of its account, from 1 on
	lanes    map[string]bool        // "" among them
	methods  map[string]bool        // nil: the first that are seen
	latest   atomic.Pointer[series] // most calls are like the one before
	series   atomic.Pointer[map[class]*series]
	mu       sync.Mutex // serializes replacing series
	seen     map[string]bool
}

// class is the calls that share all labels but the budget and the result.
type class struct{ account, method, lane string }

// series are the counters of a class: first of calls outside the budgets, then
// of each budget of the account.
type series struct {
	of     class
	counts []budgetCounts
}

type budgetCounts struct {
	calls [len(results)]atomic.Uint64
	units atomic.Uint64
}

func newCounts(budgets []quota.Budget, accounts, methods []string) *counts {
	c := &counts{accounts: map[string][]int{}, budgets: budgets, position: make([]int, len(budgets)),
		seen:  map[string]bool{},
		lanes: map[string]bool{"": true, quota.LaneCron: true, quota.LaneBackfill: true, quota.LaneManual: true}}
	c.series.Store(&map[class]*series{})
	for _, account := range accounts {
		c.accounts[account] = nil
	}
	for i := range budgets {
		b := &budgets[i]
		c.accounts[b.Account] = append(c.accounts[b.Account], i)
		c.position[i] = len(c.accounts[b.Account])
		for _, lane := range b.Lanes {
			c.lanes[lane] = true
		}
	}
	if methods != nil {
		c.methods = map[string]bool{}
		for _, method := range methods {
			c.methods[printable(method)] = true
		}
	}
	return c
}

// account returns the value of label account.
func (c *counts) account(name string) string {
	if _, ok := c.accounts[name]; ok {
		return printable(name)
	}
	return Other
}

// add counts a decision.
func (c *counts) add(d *quota.Decision) {
	s := c.seriesOf(&d.Call).counts
	n := uint64(d.Count)
	r, budget := resultOf(d)
	if r != granted && r != recorded {
		s[c.find(d, budget)].calls[r].Add(n)
		return
	}
	for _, i := range d.Budgets {
		counted := &s[c.position[i]]
		counted.calls[r].Add(n)
		counted.units.Add(n * uint64(d.Call.Amounts().Of(c.budgets[i].Measure)))
	}
	if len(d.Budgets) == 0 {
		s[0].calls[r].Add(n)
		s[0].units.Add(n * uint64(d.Call.Units))
	}
}

// find returns the place in a series of the budget that refused a call, or 0.
func (c *counts) find(d *quota.Decision, budget string) int {
	for _, i := range d.Budgets {
		if budget != "" && c.budgets[i].Name == budget {
			return c.position[i]
		}
	}
	return 0
}

// seriesOf returns the series of a call.
func (c *counts) seriesOf(call *quota.Call) *series {
	if latest := c.latest.Load(); latest != nil && latest.of == (class{call.Account, call.Method, call.Caller.Lane}) {
		return latest
	}
	known := *c.series.Load()
	if s := known[class{call.Account, call.Method, call.Caller.Lane}]; s != nil {
		c.latest.Store(s)
		return s
	}
	key := class{call.Account, c.method(call.Method), call.Caller.Lane}
	if _, ok := c.accounts[key.account]; !ok {
		key.account = Other
	}
	if !c.lanes[key.lane] {
		key.lane = Other
	}
	if s := known[key]; s != nil {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known = *c.series.Load()
	if s := known[key]; s != nil {
		return s
	}
	s := &series{key, make([]budgetCounts, 1+len(c.accounts[key.account]))}
	replacement := maps.Clone(known)
	replacement[key] = s
	c.series.Store(&replacement)
	return s
}

// method returns the value of label method.
func (c *counts) method(name string) string {
	name = printable(name) // or two series have the same labels
	if c.methods != nil {
		if c.methods[name] {
			return name
		}
		return Other
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.seen[name]:
	case len(c.seen) == MaxMethods:
		return Other
	default:
		c.seen[strings.Clone(name)] = true
	}
	return name
}

// collect sends the counters that are not 0.
func (c *counts) collect(ch chan<- prometheus.Metric) {
	for key, s := range *c.series.Load() {
		for place := range s.counts {
			budget := ""
			if place > 0 {
				budget = c.budgets[c.accounts[key.account][place-1]].Name
			}
			counted := &s.counts[place]
			for r := range counted.calls {
				if n := counted.calls[r].Load(); n > 0 {
					send(ch, decisions, prometheus.CounterValue, float64(n), key.account, budget, key.method, key.lane,
						results[r])
				}
			}
			if n := counted.units.Load(); n > 0 {
				send(ch, units, prometheus.CounterValue, float64(n), key.account, budget, key.method, key.lane)
			}
		}
	}
}

// printable returns a name as it may stand in a label.
func printable(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
