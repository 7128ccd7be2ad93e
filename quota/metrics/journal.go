package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	inAccount = []string{"account"}

	unrecorded      = prometheus.NewDesc("ration_unrecorded_units", "Units that this host spent in the last 24 hours while the ledger was down, and that the ledger lacks.", inAccount, nil)
	journalBytes    = prometheus.NewDesc("ration_journal_bytes", "The size of this host's journal.", inAccount, nil)
	journalFailing  = prometheus.NewDesc("ration_journal_failing", "1 if this process could not read or write the journal when it last did.", inAccount, nil)
	journalRestores = prometheus.NewDesc("ration_journal_restores_total", "How often this process restored the ledger from the journal.", inAccount, nil)
	journalRestored = prometheus.NewDesc("ration_journal_restored_calls_total", "Calls that the ledger lacked when this process restored it.", inAccount, nil)
)

// collectJournal sends the gauges of the journal.
func (c *Collector) collectJournal(ch chan<- prometheus.Metric) {
	for _, account := range c.accounts {
		stats, err := c.journal.Stats(account)
		failing := 0.0
		if stats.Unwritten || err != nil {
			failing = 1
		}
		if err == nil {
			sendGauge(ch, unrecorded, float64(stats.Unrecorded), account)
		}
		sendGauge(ch, journalBytes, float64(stats.Bytes), account)
		sendGauge(ch, journalFailing, failing, account)
	}
}

// countJournal sends what was restored from the journal.
func (c *Collector) countJournal(ch chan<- prometheus.Metric) {
	for _, account := range c.accounts {
		stats, _ := c.journal.Stats(account) // collectJournal shows that it is failing
		send(ch, journalRestores, prometheus.CounterValue, float64(stats.Restores), account)
		send(ch, journalRestored, prometheus.CounterValue, float64(stats.RestoredCalls), account)
	}
}
