package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/quota"
)

// Passes is a prometheus.Collector of passes: the runs of scheduled work, one
// for each region and tick. It is safe for concurrent use.
type Passes struct {
	ended *prometheus.CounterVec
	units *prometheus.CounterVec
	took  *prometheus.HistogramVec
	last  *prometheus.GaugeVec
}

// NewPasses returns a Passes without a pass.
func NewPasses() *Passes {
	outcome := []string{"outcome"}
	return &Passes{
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ration_pass_runs_total",
			Help: "Runs of passes that have ended: complete, stopped by a budget, failed, or skipped because " +
				"nothing was due."}, []string{"region", "outcome"}),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ration_pass_units_total",
			Help: "Units that runs of passes were charged."}, []string{"region"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "ration_pass_duration_seconds",
			Help: "How long runs of passes took.", Buckets: []float64{.1, .3, 1, 3, 10, 30, 100, 300, 1000, 3000}},
			outcome),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ration_pass_last_timestamp_seconds",
			Help: "When the last run of a pass ended."}, outcome),
	}
}

// Ended counts a run of a region's pass that has ended now. The regions and
// outcomes are label values, so their number must be bounded.
func (p *Passes) Ended(region, outcome string, units quota.Units, took time.Duration) {
	region, outcome = printable(region), printable(outcome)
	p.ended.WithLabelValues(region, outcome).Inc()
	p.units.WithLabelValues(region).Add(float64(max(units, 0)))
	p.took.WithLabelValues(outcome).Observe(took.Seconds())
	p.last.WithLabelValues(outcome).SetToCurrentTime()
}

func (p *Passes) collectors() []prometheus.Collector {
	return []prometheus.Collector{p.ended, p.units, p.took, p.last}
}

// Describe implements prometheus.Collector.
func (p *Passes) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range p.collectors() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (p *Passes) Collect(ch chan<- prometheus.Metric) {
	for _, c := range p.collectors() {
		c.Collect(ch)
	}
}
