package daemon

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/shadow"
	"github.com/ration-dev/ration/quota/metrics"
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
		o.Journal = c.Journal()
	}
	return o
}

// exposition is what a daemon shows at /metrics: the guard of the client in
// use, and its passes. It is safe for concurrent use.
type exposition struct {
	passes *metrics.Passes
	pages  sync.Map // of http.Handler, by *client.Client
}

// add makes a client show its metrics.
func (e *exposition) add(c *client.Client, timed *metrics.Ledger) {
	o := MetricsOptions(c.Table(), c)
	o.Ledger = timed
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(c.Guard(), o), &shadow.Collector{Client: c}, e.passes)
	e.pages.Store(c, promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
}

func (e *exposition) show(w http.ResponseWriter, r *http.Request, c *client.Client) {
	if page, ok := e.pages.Load(c); ok {
		page.(http.Handler).ServeHTTP(w, r)
	}
}
