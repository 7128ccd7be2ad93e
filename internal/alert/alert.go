// Package alert tells people once, over all hosts, what they should know about
// a budget: that it is nearly spent or will be, that the upstream has asked for
// a pause, that the ledger is down or has forgotten, that costs.yaml does not
// agree with the upstream.
//
//	watch := alert.New(c, nil)
//	go watch.Run(ctx)
//
// Of all processes that use the ledger, the one that claims an alert there
// sends it. A claim is released if sending fails, and expires if the process
// dies, so an alert may rarely come twice. While the ledger is down nothing can
// be claimed there: then one process of each host sends.
//
// Sending happens in Run and Check only, so it delays no call.
package alert

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Options are the options of New. The zero value is the default.
type Options struct {
	// Redact removes secrets from texts, beside those of URLs. nil leaves them.
	Redact func(string) string
	// Environ is the environment of commands; nil is that of this process.
	Environ []string
	// Report is called with each alert that could not be sent, of which no
	// address is shown. nil drops them.
	Report func(error)
	// Planned returns when each of the table's budgets will first refuse a
	// scheduled call, or zero if it will not soon. Each check of the pace calls
	// it. If it is nil, nothing is scheduled.
	Planned func(context.Context) ([]time.Time, error)
}

// Watch sends the alerts of one client's costs.yaml. It is safe for
// concurrent use.
type Watch struct {
	client  *client.Client
	options Options
	pause   time.Duration             // after a first failure to send; then four times as long
	targets map[string][]*costs.Alert // by account

	mu      sync.Mutex
	pending []*event // that were reported, and are not sent yet
	checks  sync.Mutex
	sent    map[string]bool // that the ledger is down, by address, where there is no state folder
	ahead   time.Time       // when the last forecast was made
}

const (
	interval   = time.Minute      // between two checks of Run
	hold       = 2 * time.Minute  // how long a process may take to send
	readTime   = 10 * time.Second // for the ledger to answer
	maxPending = 100
	shortPause = 5 * time.Minute // no alert is sent for a shorter cooldown
)

// New returns a Watch. It sends nothing if no document has an alert.
func New(c *client.Client, o *Options) *Watch {
	w := &Watch{client: c, targets: map[string][]*costs.Alert{}, sent: map[string]bool{}, pause: time.Second}
	if o != nil {
		w.options = *o
	}
	for _, u := range c.Table().Upstreams() {
		if u.Alert != nil {
			w.targets[u.Account] = append(w.targets[u.Account], u.Alert)
		}
	}
	return w
}

// Run checks once a minute until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	if len(w.targets) == 0 {
		return
	}
	for {
		w.Check(ctx)
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return
		}
	}
}

// Reported is given what the client reports, as client.Options.Report gets it.
// It keeps what is worth an alert for the next Check, and returns at once.
func (w *Watch) Reported(call quota.Call, err error) {
	e := &event{Kind: costs.AlertDrift, Account: call.Account, detail: err.Error()}
	if limit, ok := errors.AsType[*quota.LimitError](err); ok {
		e.Account, e.Budget = limit.Account, limit.Budget
		e.name = "limit " + limit.Budget
	} else if _, ok := errors.AsType[*quota.CostError](err); ok {
		e.name = "cost " + call.Method
	} else if rejected, ok := errors.AsType[*client.RejectedError](err); ok {
		e.Kind, e.name = costs.AlertCredential, "credential "+rejected.Host
	} else {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) < maxPending && len(w.targets[e.Account]) > 0 {
		w.pending = append(w.pending, e)
	}
}

// Check looks at the budgets and the ledger once, and sends what is due. It
// returns when that is sent, or has failed.
func (w *Watch) Check(ctx context.Context) {
	w.checks.Lock()
	defer w.checks.Unlock()
	w.mu.Lock()
	pending := w.pending
	w.pending = nil
	w.mu.Unlock()
	down := false
	for _, account := range w.client.Table().Accounts() {
		if len(w.targets[account]) == 0 || ctx.Err() != nil {
			continue
		}
		read, cancel := context.WithTimeout(ctx, readTime)
		balances, err := w.client.Guard().AccountBalances(read, account)
		cancel()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, quota.ErrLedgerBusy) && !down {
				down = true
				w.ledgerDown(ctx, account, err)
			}
			continue
		}
		for _, e := range w.found(balances) {
			if e.Kind == costs.AlertCooldown {
				w.sendCooldown(ctx, e)
			} else {
				w.claimAndSend(ctx, e)
			}
		}
		w.sendCooldownEnds(ctx, balances)
		if e := w.moved(ctx, account); e != nil {
			w.claimAndSend(ctx, e)
		}
	}
	if !down {
		hasRefusals, losses := w.readDay(ctx)
		for _, e := range losses {
			w.claimAndSend(ctx, e)
		}
		if hasRefusals && w.wants(costs.AlertRefused) {
			w.refused(ctx)
		}
		for _, e := range w.exhausted(ctx) {
			w.claimAndSend(ctx, e)
		}
	}
	if !down && ctx.Err() == nil {
		w.unmark() // the next outage is worth an alert
	}
	var left []*event
	for _, e := range pending {
		if down || !w.claimAndSend(ctx, e) {
			left = append(left, e)
		}
	}
	w.mu.Lock()
	w.pending = append(left, w.pending...)
	w.mu.Unlock()
}

// found returns what balances have to tell.
func (w *Watch) found(balances []quota.Balance) (events []*event) {
	cooling := map[string]bool{}
	for i := range balances {
		b := &balances[i]
		isMomentary := b.Budget.Window.Kind() == engine.InFlight
		if !b.Budget.Shadow && !isMomentary {
			events = append(events, levelEvent(b))
		}
		c := b.Cooldown
		if c == nil || cooling[c.Budget] || c.Until.Sub(b.At) < shortPause {
			continue
		}
		cooling[c.Budget] = true
		e := cooldownEvent(c)
		if outside := usage.Outside(b, w.client.Table().UpstreamLimit(c.Account, b.Budget.Name)); outside != "" {
			e.detail += "; " + outside
		}
		events = append(events, e)
	}
	return events
}

// moved returns the event of an account that has left this ledger, or nil.
func (w *Watch) moved(ctx context.Context, account string) *event {
	moved, err := w.client.Guard().Moved(ctx, account)
	if err != nil || moved == nil || moved.Arriving {
		return nil
	}
	return &event{Kind: costs.AlertCooldown, Account: account, name: "moved " + moved.Ledger, detail: moved.Error()}
}

// levelEvent returns the event of a budget, which is sent if it has reached a
// level that a target names.
func levelEvent(b *quota.Balance) *event {
	percent := min(100, b.Used*100/b.Limit())
	window := ""
	if b.Budget.Window.Kind() == engine.Calendar { // another one each day or month
		window = fmt.Sprint(b.Since.Unix())
	}
	e := &event{Kind: costs.AlertLevel, Account: b.Budget.Account, Budget: b.Budget.Name, Used: b.Used,
		Limit: b.Limit(), percent: percent, name: "level " + b.Budget.Name + " " + window}
	e.detail = fmt.Sprintf("%s of %s has used %s of %s", human.Name(b.Budget.Name), human.Name(b.Budget.Account),
		b.Budget.Measure.Number(b.Used), b.Budget.Measure.Text(b.Limit()))
	if !b.NextFree.IsZero() {
		e.detail += "; more returns at " + human.Time(b.NextFree)
		e.Until = &b.NextFree
	}
	if window != "" {
		e.again = b.Budget.Horizon() + 24*time.Hour
	}
	return e
}

const (
	forecasts     = 10 * time.Minute // between two, since each reads sums of the log
	leastForecast = 6 * time.Hour    // a shorter window runs out and is back before anybody looks
)

// exhausted returns an event for each budget that will be used up before its
// window ends, if it is time for another forecast and a target wants to know.
func (w *Watch) exhausted(ctx context.Context) (events []*event) {
	if !w.wants(costs.AlertExhaustion) || time.Since(w.ahead) < forecasts {
		return nil
	}
	w.ahead = time.Now()
	read, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	statuses, err := usage.Status(read, w.client.Guard())
	if err != nil {
		return nil // the next one will tell; that the ledger is down is an event of its own
	}
	if len(statuses) == 0 {
		return nil
	}
	refusing, err := report.Refusing(read, w.client, statuses, statuses[0].At)
	if err != nil {
		return nil
	}
	planned := make([]time.Time, len(statuses))
	if w.options.Planned != nil {
		if times, err := w.options.Planned(read); err == nil && len(times) == len(statuses) {
			planned = times
		}
	}
	for i := range statuses {
		b := &statuses[i].Budget
		e := exhaustion(&statuses[i], planned[i])
		if e != nil && !report.IsRefusing(refusing, b.Account, b.Name) { // which forecasts nothing
			events = append(events, e)
		}
	}
	return events
}

// exhaustion returns the event of a budget that will be used up before its
// window ends, by its pace or by the schedule, or nil.
func exhaustion(s *usage.BudgetStatus, planned time.Time) *event {
	window := s.Budget.Window
	if s.Budget.Shadow || s.Used >= s.Limit() || s.Budget.Horizon() < leastForecast {
		return nil
	}
	end := s.At.Add(s.Budget.Horizon())
	if window.Kind() == engine.Calendar {
		end = window.Day(s.At).Next // the next day may be another
	}
	soon := func(at time.Time) bool { return !at.IsZero() && at.Before(end) }
	e := levelEvent(&s.Balance)
	e.Kind, e.name = costs.AlertExhaustion, "exhaustion "+e.name
	when := func(at time.Time) string {
		return fmt.Sprintf("%s (in %s)", human.Time(at), human.Duration(at.Sub(s.At)))
	}
	name := human.Name(s.Budget.Name) + " of " + human.Name(s.Budget.Account)
	switch byPace, byPlan := soon(s.RunsOut), soon(planned); {
	case byPace:
		e.Until = &s.RunsOut
		e.detail = fmt.Sprintf("%s will be used up at %s at the pace of the last %s", name, when(s.RunsOut),
			human.Duration(s.PaceOver))
		if byPlan {
			e.detail += "; by the schedule it refuses its first call at " + when(planned)
		}
		if byPlan && planned.Before(s.RunsOut) {
			e.Until = &planned
		}
	case byPlan:
		e.Until = &planned
		e.detail = fmt.Sprintf("by the schedule, %s refuses its first call at %s", name, when(planned))
	default:
		return nil
	}
	e.detail += fmt.Sprintf(": %s of %s are used", s.Budget.Measure.Number(s.Used), s.Budget.Measure.Text(s.Limit()))
	return e
}

// finishTime is the longest time that Finish takes.
const finishTime = 30 * time.Second

// Finish is Check for a program that ends: it takes at most half a minute. It
// sends nothing if ctx is cancelled.
func (w *Watch) Finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	w.Check(ctx)
}
