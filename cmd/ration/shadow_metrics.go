package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/plan"
)

var (
	shadowCalls = prometheus.NewDesc("ration_budget_shadow_refused_calls", "Calls that a shadow would have refused in its window, if it were enforced.", []string{"account", "budget"}, nil)
	shadowUnits = prometheus.NewDesc("ration_budget_shadow_refused_units", "Units of the calls that a shadow would have refused in its window, if it were enforced.", []string{"account", "budget"}, nil)
)

// shadowAge is how old the figures of shadows may be. Each takes a reading of the
// log that is as long as the budget's window.
const shadowAge = 10 * time.Minute

// shadowMetrics shows what the shadows of a client would have refused. It is safe for
// concurrent use.
type shadowMetrics struct {
	client *client.Client
	now    func() time.Time
	wait   bool // a scrape waits for new figures; otherwise it shows the last ones and has them renewed

	mu      sync.Mutex
	read    time.Time // when figures were read last, or began to be
	figures map[int]plan.ReplayedBudget
}

// Describe implements prometheus.Collector.
func (m *shadowMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- shadowCalls; ch <- shadowUnits }

// Collect implements prometheus.Collector.
func (m *shadowMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	due := m.now().Sub(m.read) >= shadowAge
	if due {
		m.read = m.now()
	}
	m.mu.Unlock()
	if due && m.wait {
		m.renew()
	} else if due {
		go m.renew()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.client.Table().Budgets() {
		if figure, ok := m.figures[i]; ok {
			ch <- prometheus.MustNewConstMetric(shadowCalls, prometheus.GaugeValue, float64(figure.Refused), b.Account, b.Name)
			ch <- prometheus.MustNewConstMetric(shadowUnits, prometheus.GaugeValue, float64(figure.RefusedUnits), b.Account, b.Name)
		}
	}
}

// renew reads the log. While the ledger does not answer, there are no figures.
func (m *shadowMetrics) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	budgets, figures := m.client.Table().Budgets(), map[int]plan.ReplayedBudget{}
	for i := range budgets {
		if !budgets[i].Shadow {
			continue
		}
		replayed, err := plan.ReplayShadow(ctx, m.client.Ledger(), budgets, i, m.now(), openSimulated)
		if err == nil {
			figures[i] = replayed
		}
	}
	m.mu.Lock()
	m.figures = figures
	m.mu.Unlock()
}
