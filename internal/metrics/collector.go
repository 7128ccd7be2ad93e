// Package metrics shows a Guard to Prometheus.
//
//	timed := metrics.NewLedger(ledger)
//	guard, err := quota.NewGuard(timed, budgets, nil)
//	...
//	prometheus.MustRegister(metrics.New(guard, &metrics.Options{Ledger: timed}))
//
// Counters and histograms are about this process: what its guard decided, and
// how its ledger answered. Gauges are about the ledger, whichever process
// spent: each scrape reads the balances of every account once. While the
// ledger does not answer, the gauges that it would answer are missing, and the
// rest is there.
//
// Labels come from the budgets, the methods and the lanes that are configured,
// so their number does not depend on what callers send. Of the jobs, those that
// spent most are told apart. Regions and keys never become labels.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/quota"
)

// Options are the options of New. The zero value is the default.
type Options struct {
	// Methods are the values of label method; calls of other methods count as
	// Other. nil keeps the first MaxMethods that are called.
	Methods []string

	// Accounts are those without budgets that are values of label account. The
	// accounts of budgets always are.
	Accounts []string

	// Ledger times the ledger's answers; nil leaves
	// ration_ledger_duration_seconds out.
	Ledger *Ledger

	// Host returns what this host knows of an account; nil leaves
	// ration_unrecorded_units, ration_replica_* and ration_restor* out.
	Host func(account string) (HostStats, error)

	// Timeout is the longest that a scrape waits for the ledger. 0
	// means DefaultTimeout.
	Timeout time.Duration
}

const (
	// Other stands for the accounts, methods and lanes that are not configured.
	Other = "other"

	// MaxMethods is how many methods are told apart without Options.Methods.
	MaxMethods = 100

	// DefaultTimeout is less than the 10 seconds that Prometheus waits.
	DefaultTimeout = 5 * time.Second
)

// Collector is a prometheus.Collector over a Guard. It is safe for
// concurrent use.
type Collector struct {
	guard    *quota.Guard
	budgets  []quota.Budget
	accounts []string
	ledger   *Ledger
	host     func(string) (HostStats, error)
	timeout  time.Duration
	counts   *counts
	waits    *prometheus.HistogramVec
	err      atomic.Pointer[error]
	reading  chan struct{} // holds an element while the ledger is read, so that a slow one is asked once
}

// New returns a Collector and begins to count what guard decides. Call it once
// for a guard, before the first call.
func New(guard *quota.Guard, o *Options) *Collector {
	if o == nil {
		o = &Options{}
	}
	c := &Collector{guard: guard, budgets: guard.Budgets(), ledger: o.Ledger, host: o.Host, timeout: o.Timeout,
		reading: make(chan struct{}, 1)}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	known := map[string]bool{}
	add := func(account string) {
		if !known[account] {
			known[account] = true
			c.accounts = append(c.accounts, account)
		}
	}
	for i := range c.budgets {
		add(c.budgets[i].Account)
	}
	for _, account := range o.Accounts {
		add(account)
	}
	c.counts = newCounts(c.budgets, c.accounts, o.Methods)
	c.waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ration_wait_seconds", Help: "How long calls that may wait for their units took until the decision.",
		Buckets: []float64{.001, .01, .1, 1, 5, 15, 60, 300, 1800},
	}, []string{"account"})
	guard.Observe(c.observe)
	return c
}

// observe counts a decision.
func (c *Collector) observe(d quota.Decision) {
	c.counts.add(&d)
	if d.MayWait {
		c.waits.WithLabelValues(c.counts.account(d.Call.Account)).Observe(d.Waited.Seconds())
	}
}

var (
	inBudget = []string{"account", "budget"}
	ofCall   = []string{"account", "budget", "method", "lane"}

	decisions = prometheus.NewDesc("ration_decisions_total",
		"Calls that this process asked for, by decision. A granted call counts in each budget that covers it, "+
			"another one in the budget that refused it.", append(ofCall[:4:4], "result"), nil)
	units = prometheus.NewDesc("ration_units_total",
		"What calls of this process were charged when they were granted, in what the budget counts.", ofCall, nil)

	limitUnits = prometheus.NewDesc("ration_budget_limit_units",
		"The limit of a budget, in what it counts: units, calls, a named measure, or dollars.", inBudget, nil)
	usedUnits = prometheus.NewDesc("ration_budget_used_units",
		"What all processes have used of a budget's window.", inBudget, nil)
	remainingUnits = prometheus.NewDesc("ration_budget_remaining_units",
		"What is left of a budget's window, with what floors reserve.", inBudget, nil)
	nextFree = prometheus.NewDesc("ration_budget_next_free_timestamp_seconds",
		"When the next units of a budget return; missing if none are used.", inBudget, nil)
	cooldownUntil = prometheus.NewDesc("ration_cooldown_until_timestamp_seconds",
		"When the cooldown of a budget ends, or of the account if budget is empty; missing if there is none.", inBudget,
		nil)
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	descs := []*prometheus.Desc{limitUnits, usedUnits, remainingUnits, nextFree, cooldownUntil, spentUnits, spentCalls,
		buildInfo}
	if c.host != nil {
		descs = append(descs, unrecorded, replicaFailing)
	}
	for _, desc := range descs {
		ch <- desc
	}
	c.Totals().Describe(ch)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	c.collectBudgets(ctx, ch)
	sendBuild(ch)
	if c.host != nil {
		c.collectHost(ch)
	}
	c.Totals().Collect(ch)
}

// Err returns why the last scrape lacks what it would read of the ledger, or
// nil if it lacks nothing.
func (c *Collector) Err() error {
	if err := c.err.Load(); err != nil {
		return *err
	}
	return nil
}

// collectBudgets sends the gauges of the budgets and cooldowns.
func (c *Collector) collectBudgets(ctx context.Context, ch chan<- prometheus.Metric) {
	var errs []error
	for _, account := range c.accounts {
		known, err := c.read(ctx, account)
		errs = append(errs, err)
		known.spent.send(ch, account)
		for i := range known.balances {
			b := &known.balances[i]
			value := b.Budget.Measure.Value
			sendGauge(ch, limitUnits, value(b.Limit()), account, b.Budget.Name)
			sendGauge(ch, usedUnits, value(b.Used), account, b.Budget.Name)
			sendGauge(ch, remainingUnits, value(b.Remaining), account, b.Budget.Name)
			if !b.NextFree.IsZero() {
				sendGauge(ch, nextFree, seconds(b.NextFree), account, b.Budget.Name)
			}
		}
		for _, cooldown := range known.cooldowns {
			sendGauge(ch, cooldownUntil, seconds(cooldown.Until), account, cooldown.Budget)
		}
		for i := range c.budgets {
			if b := &c.budgets[i]; err != nil && b.Account == account {
				sendGauge(ch, limitUnits, b.Measure.Value(b.Limit), account, b.Name)
			}
		}
	}
	c.err.Store(new(errors.Join(errs...)))
}

// answer is what the ledger says of an account.
type answer struct {
	balances  []quota.Balance
	cooldowns []quota.Cooldown
	spent     spending
}

// read returns what the ledger says of an account, or an error if it does not
// answer in time.
func (c *Collector) read(ctx context.Context, account string) (answer, error) {
	select {
	case c.reading <- struct{}{}:
	case <-ctx.Done():
		return answer{}, fmt.Errorf("balances of %s: %w", account, ctx.Err())
	}
	var a answer
	failed := make(chan error, 1)
	go func() { // a ledger may notice late that ctx has ended
		defer func() { <-c.reading }()
		failed <- c.ask(ctx, account, &a)
	}()
	select {
	case err := <-failed:
		return a, err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("balances of %s: %w", account, ctx.Err())
	}
}

// ask asks the ledger.
func (c *Collector) ask(ctx context.Context, account string, a *answer) (err error) {
	if a.balances, err = c.guard.AccountBalances(ctx, account); err != nil {
		return err
	}
	now, held, err := c.guard.Cooldowns(ctx, account)
	if err != nil {
		return err
	}
	a.cooldowns = slices.DeleteFunc(held, func(c quota.Cooldown) bool { return c.Key != "" }) // there may be many
	a.spent, err = c.readSpent(ctx, account, now)
	return err
}

func sendGauge(ch chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	send(ch, desc, prometheus.GaugeValue, value, labels...)
}

// send sends a metric. Names that are not UTF-8 are made so.
func send(ch chan<- prometheus.Metric, desc *prometheus.Desc, kind prometheus.ValueType, value float64,
	labels ...string) {
	for i := range labels {
		labels[i] = printable(labels[i])
	}
	ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
