package quota_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// immediate answers every request at once, so that only the transport's own
// cost is measured.
type immediate struct{ resp *http.Response }

func (i immediate) RoundTrip(*http.Request) (*http.Response, error) { return i.resp, nil }

// BenchmarkTransport measures a guarded RoundTrip; compare it with
// BenchmarkTransportBaseline.
func BenchmarkTransport(b *testing.B) {
	guard := newGuard(b, nil, budget("day", quota.MaxLimit, 100*time.Millisecond),
		budget("hour", quota.MaxLimit, 200*time.Millisecond))
	c := call("videos.list", 1)
	bench(b, &quota.Transport{Guard: guard, Base: immediate{&http.Response{}},
		Price: func(*http.Request) (quota.Call, error) { return c, nil }})
}

// BenchmarkTransportBaseline is the same RoundTrip without the guard.
func BenchmarkTransportBaseline(b *testing.B) { bench(b, immediate{&http.Response{}}) }

func bench(b *testing.B, transport http.RoundTripper) {
	req, err := http.NewRequest("GET", "http://127.0.0.1/", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := transport.RoundTrip(req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRememberedRefusal compares a saturated guard's answer with time.Now;
// "xnow" is the ratio.
func BenchmarkRememberedRefusal(b *testing.B) {
	guard := newGuard(b, nil, budget("day", 1, 24*time.Hour))
	ctx, c := context.Background(), call("search.list", 1)
	if _, err := guard.Spend(ctx, c); err != nil {
		b.Fatal(err)
	}
	const rounds = 1000
	var refused, baseline time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		for range rounds {
			if _, err := guard.Spend(ctx, c); err == nil {
				b.Fatal("granted")
			}
		}
		middle := time.Now()
		for range rounds {
			_ = time.Now().IsZero()
		}
		refused += middle.Sub(began)
		baseline += time.Since(middle)
	}
	b.ReportMetric(float64(refused)/float64(baseline), "xnow")
}
