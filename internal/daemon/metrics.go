package daemon

import (
	"errors"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/internal/plan"
)

// MetricsOptions returns the labels of a table's metrics. c may be nil.
func MetricsOptions(table *costs.Table, c *client.Client) *metrics.Options {
	o := &metrics.Options{Accounts: table.Accounts(), Methods: []string{}}
	for _, u := range table.Upstreams() {
		for _, cost := range u.Costs {
			o.Methods = append(o.Methods, cost.Method)
		}
	}
	if c != nil {
		o.Host = func(account string) (metrics.HostStats, error) {
			stats, err := c.HostStats(account)
			return metrics.HostStats(stats), err
		}
	}
	return o
}

// exposition is what a daemon shows at /metrics: the guard of the client in
// use, and its passes. Its counters include those of clients that were
// replaced. It is safe for concurrent use.
type exposition struct {
	passes *metrics.Passes

	mu      sync.Mutex
	shown   map[*client.Client]shown
	retired []*dto.MetricFamily // counters of clients that are closed
}

// shown is what is shown of one client.
type shown struct {
	all    *prometheus.Registry
	totals *prometheus.Registry // its counters alone, which need no ledger
}

func newExposition() exposition {
	return exposition{passes: metrics.NewPasses(), shown: map[*client.Client]shown{}}
}

// add makes a client show its metrics.
func (e *exposition) add(c *client.Client, timed *metrics.Ledger) {
	o := MetricsOptions(c.Table(), c)
	o.Ledger = timed
	collector := metrics.New(c.Guard(), o)
	s := shown{all: prometheus.NewRegistry(), totals: prometheus.NewRegistry()}
	s.all.MustRegister(collector, &plan.ShadowCollector{Client: c}, e.passes)
	s.totals.MustRegister(collector.Totals())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shown[c] = s
}

// retire keeps the counters of a client that is about to be closed.
func (e *exposition) retire(c *client.Client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, ok := e.shown[c]; ok {
		counted, _ := s.totals.Gather() // an error leaves out what it is about
		e.retired = addTotals(e.retired, counted)
		delete(e.shown, c)
	}
}

func (e *exposition) show(w http.ResponseWriter, r *http.Request, c *client.Client) {
	gatherer := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return e.gather(c) })
	promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// gather returns the metrics of a client. Its counters include those of all
// others.
func (e *exposition) gather(c *client.Client) ([]*dto.MetricFamily, error) {
	e.mu.Lock()
	own, ok := e.shown[c]
	e.mu.Unlock()
	if !ok {
		return nil, nil
	}
	families, err := own.all.Gather()
	e.mu.Lock()
	defer e.mu.Unlock()
	families = addTotals(families, e.retired)
	for other, s := range e.shown {
		if other != c {
			counted, failed := s.totals.Gather()
			families, err = addTotals(families, counted), errors.Join(err, failed)
		}
	}
	return families, err
}
