package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// A Go program shows its guard at /metrics.
func Example() {
	ledger := metrics.NewLedger(memledger.Open(nil))
	guard, err := quota.NewGuard(ledger, []quota.Budget{
		{Account: "my-project", Name: "day", Limit: 10_000, Window: quota.Sliding(24 * time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(guard, &metrics.Options{Methods: []string{"search.list"}, Ledger: ledger}))
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	_, err = guard.Spend(context.Background(), quota.Call{Account: "my-project", Method: "search.list", Units: 100})
	if err != nil {
		log.Fatal(err)
	}
	answer := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "ration_units_total") || strings.HasPrefix(line, "ration_budget_remaining") {
			fmt.Print(line)
		}
	}
	// Output: ration_budget_remaining_units{account="my-project",budget="day"} 9900
	// ration_units_total{account="my-project",budget="day",lane="",method="search.list"} 100
}
