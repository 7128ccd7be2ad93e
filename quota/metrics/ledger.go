package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/quota"
)

// Ledger is a quota.Log that times the answers of another one. Put it right
// around the ledger itself, below a journal.
//
// It times what decides and changes: spend, settle, refund, standings, cooldown
// and restore. A refusal is an answer, so its result is ok.
type Ledger struct {
	quota.Log // implements what is not timed
	durations    *prometheus.HistogramVec
	spend        quota.SpendFunc
}

// NewLedger returns inner with a clock.
func NewLedger(inner quota.Log) *Ledger {
	return &Ledger{Ledger: inner, spend: inner.Spend, durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ration_ledger_duration_seconds", Help: "How long the ledger took to answer this process.",
		Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10},
	}, []string{"op", "result"})}
}

// Around implements quota.CombiningLedger.
func (l *Ledger) Around(layer func(quota.SpendFunc) quota.SpendFunc) {
	if combining, ok := l.Ledger.(quota.CombiningLedger); ok {
		combining.Around(layer)
	} else {
		l.spend = layer(l.spend)
	}
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return quota.RealTime(l.Ledger) }

// Spend implements quota.Log.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) (answers []quota.Answer, err error) {
	defer l.observe("spend", time.Now(), &err)
	return l.spend(ctx, batch)
}

// Settle implements quota.Log.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) (err error) {
	defer l.observe("settle", time.Now(), &err)
	return l.Ledger.Settle(ctx, receipt, units)
}

// Refund implements quota.Log.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) (err error) {
	defer l.observe("refund", time.Now(), &err)
	return l.Ledger.Refund(ctx, receipt)
}

// Standings implements quota.Log.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) (standings []quota.Standing, err error) {
	defer l.observe("standings", time.Now(), &err)
	return l.Ledger.Standings(ctx, account, key, charges)
}

// SetCooldown implements quota.Log.
func (l *Ledger) SetCooldown(ctx context.Context, c quota.Cooldown) (err error) {
	defer l.observe("cooldown", time.Now(), &err)
	return l.Ledger.SetCooldown(ctx, c)
}

// Restore implements quota.Log.
func (l *Ledger) Restore(ctx context.Context, r *quota.Restoration) (restored quota.RestoreResult, err error) {
	defer l.observe("restore", time.Now(), &err)
	return l.Ledger.Restore(ctx, r)
}

func (l *Ledger) observe(op string, began time.Time, err *error) {
	name := "ok"
	if *err != nil {
		name = results[resultOfLedger(*err)]
	}
	if errors.Is(*err, quota.ErrStays) { // the ledger's answer to a late settlement
		name = "ok"
	}
	l.durations.WithLabelValues(op, name).Observe(time.Since(began).Seconds())
}
