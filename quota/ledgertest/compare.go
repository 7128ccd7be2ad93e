package ledgertest

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// Loop is a function that a benchmark repeats, in a number of goroutines; 0
// is one.
type Loop struct {
	Goroutines int
	Do         func()
}

// Compare runs step b.N times and baseline as often, in alternate rounds, so
// that the load of the machine affects both alike. It reports the medians of
// the rounds: ns/op of step, ns/baseline, xbaseline (the time of step divided
// by that of baseline) and xrate (its inverse). Allocations are those of both.
func Compare(b *testing.B, baseline, step Loop) {
	b.Helper()
	rounds := max(1, min(31, b.N/(10*max(1, step.Goroutines))))
	each := max(1, b.N/rounds)
	var baselines, steps, ratios []float64
	b.ResetTimer()
	for i := range rounds {
		var times [2]float64
		for j := range times { // either comes first by turns
			which := (i + j) % 2
			times[which] = [2]Loop{baseline, step}[which].run(each)
		}
		baselines = append(baselines, times[0])
		steps = append(steps, times[1])
		ratios = append(ratios, times[1]/times[0])
	}
	ratio := median(ratios)
	b.ReportMetric(median(steps), "ns/op")
	b.ReportMetric(median(baselines), "ns/baseline")
	b.ReportMetric(ratio, "xbaseline")
	b.ReportMetric(1/ratio, "xrate")
}

// run calls Do n times and returns the nanoseconds per repetition.
func (l Loop) run(n int) float64 {
	began := time.Now()
	var all sync.WaitGroup
	for i := range l.Goroutines {
		all.Go(func() {
			for range (n + i) / l.Goroutines {
				l.Do()
			}
		})
	}
	if l.Goroutines == 0 {
		for range n {
			l.Do()
		}
	}
	all.Wait()
	return float64(time.Since(began).Nanoseconds()) / float64(n)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
