package plan

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/metrics"
)

var (
	wouldRefuseCalls = prometheus.NewDesc("ration_budget_would_refuse_calls",
		"Calls that a budget with shadow: true would have refused since its window began.",
		[]string{"account", "budget"}, nil)
	wouldRefuseUnits = prometheus.NewDesc("ration_budget_would_refuse_units",
		"Units of the calls that a budget with shadow: true would have refused since its window began.",
		[]string{"account", "budget"}, nil)
)

// ShadowCollector shows what the shadows of a client would have refused. It
// replays the log, at most a hundredth of the time: until it may again, it
// shows what it found last. It is safe for concurrent use.
type ShadowCollector struct {
	Client *client.Client

	mu      sync.Mutex
	reading chan struct{} // is closed when the reading that runs has ended; nil if none runs
	next    time.Time     // when the log may be read again
	found   []ReplayedBudget
}

// timeout is the longest that a reading may take.
const timeout = 30 * time.Second

// Describe implements prometheus.Collector.
func (s *ShadowCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- wouldRefuseCalls
	ch <- wouldRefuseUnits
}

// Collect implements prometheus.Collector. It waits for the ledger as long as
// the other metrics do.
func (s *ShadowCollector) Collect(ch chan<- prometheus.Metric) {
	late := time.NewTimer(metrics.DefaultTimeout)
	defer late.Stop()
	select {
	case <-s.read():
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.found {
		b := &s.found[i]
		for desc, value := range map[*prometheus.Desc]float64{wouldRefuseCalls: float64(b.Refused),
			wouldRefuseUnits: float64(b.RefusedUnits)} {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, b.Budget.Account, b.Budget.Name)
		}
	}
}

// read begins to read the log, unless that runs or is too soon, and returns
// what is closed at its end.
func (s *ShadowCollector) read() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading != nil {
		return s.reading
	}
	done := make(chan struct{})
	if time.Now().Before(s.next) {
		close(done)
		return done
	}
	s.reading = done
	go func() {
		began := time.Now()
		found := s.replay()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.found, s.reading = found, nil
		s.next = time.Now().Add(100 * time.Since(began))
		close(done)
	}()
	return done
}

// replay returns what the shadows would have refused, and nothing of those
// about which the ledger does not answer.
func (s *ShadowCollector) replay() (found []ReplayedBudget) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	budgets := s.Client.Table().Budgets()
	for i := range budgets {
		if !budgets[i].Shadow {
			continue
		}
		balances, err := s.Client.Guard().AccountBalances(ctx, budgets[i].Account)
		if err != nil || len(balances) == 0 {
			continue
		}
		replayed, err := ClientShadow(ctx, s.Client, i, balances[0].At)
		if err == nil {
			found = append(found, replayed)
		}
	}
	return found
}
