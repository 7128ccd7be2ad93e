package metrics

import "github.com/prometheus/client_golang/prometheus"

// Totals returns a collector of the counters and histograms of c alone. It does
// not read the ledger. A process that replaces its guard adds what the earlier
// ones have counted to what it shows.
func (c *Collector) Totals() prometheus.Collector { return totals{c} }

type totals struct{ *Collector }

// Describe implements prometheus.Collector.
func (t totals) Describe(ch chan<- *prometheus.Desc) {
	ch <- decisions
	ch <- units
	if t.host != nil {
		ch <- restorations
		ch <- restored
	}
	t.waits.Describe(ch)
	if t.ledger != nil {
		t.ledger.durations.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (t totals) Collect(ch chan<- prometheus.Metric) {
	t.counts.collect(ch)
	if t.host != nil {
		t.countHost(ch)
	}
	t.waits.Collect(ch)
	if t.ledger != nil {
		t.ledger.durations.Collect(ch)
	}
}
