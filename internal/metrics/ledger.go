package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// Ledger is a quota.Ledger that times the answers of another one: to append,
// whether that was done or must be tried again, and to read.
type Ledger struct {
	quota.Ledger
	durations *prometheus.HistogramVec
}

// NewLedger returns inner with a clock.
func NewLedger(inner quota.Ledger) *Ledger {
	l := &Ledger{durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ration_ledger_duration_seconds", Help: "How long the ledger took to answer this process.",
		Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3, 10},
	}, []string{"op", "result"})}
	l.Ledger = engine.WatchLedger(inner, l.observe)
	return l
}

// RealTime says what engine.RealTime says of the inner ledger.
func (l *Ledger) RealTime() bool { return engine.RealTime(l.Ledger) }

func (l *Ledger) observe(op, _ string, took time.Duration, err error) error {
	name := "ok"
	if err != nil {
		name = results[resultOfLedger(err)]
	}
	l.durations.WithLabelValues(op, name).Observe(took.Seconds())
	return err
}
