package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/quota"
)

// HostStats are what a host knows of an account beside its log.
type HostStats struct {
	Unrecorded   quota.Units // spent while the ledger was down, and not known to be in it
	Failing      bool        // the host's copy of the log could not be read or written
	Restorations int         // how often this process restored what the ledger lacked
	Restored     int         // the records that it restored
}

var (
	inAccount = []string{"account"}

	unrecorded = prometheus.NewDesc("ration_unrecorded_units",
		"Units that this host spent in the last 24 hours while the ledger was down, and that the ledger lacks.",
		inAccount, nil)
	replicaFailing = prometheus.NewDesc("ration_replica_failing",
		"1 if this process could not read or write the host's copy of the ledger when it last did.", inAccount, nil)
	restorations = prometheus.NewDesc("ration_restorations_total",
		"How often this process restored what the ledger lacked.", inAccount, nil)
	restored = prometheus.NewDesc("ration_restored_records_total",
		"Records that the ledger lacked when this process restored it.", inAccount, nil)
)

// collectHost sends the gauges of the host.
func (c *Collector) collectHost(ch chan<- prometheus.Metric) {
	for _, account := range c.accounts {
		stats, err := c.host(account)
		failing := 0.0
		if stats.Failing || err != nil {
			failing = 1
		}
		if err == nil {
			sendGauge(ch, unrecorded, float64(stats.Unrecorded), account)
		}
		sendGauge(ch, replicaFailing, failing, account)
	}
}

// countHost sends what this process restored.
func (c *Collector) countHost(ch chan<- prometheus.Metric) {
	for _, account := range c.accounts {
		stats, _ := c.host(account) // collectHost shows that it is failing
		send(ch, restorations, prometheus.CounterValue, float64(stats.Restorations), account)
		send(ch, restored, prometheus.CounterValue, float64(stats.Restored), account)
	}
}
