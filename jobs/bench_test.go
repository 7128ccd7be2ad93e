package jobs_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// BenchmarkRun is eight regions of four pages against an upstream that takes
// 100 ms per answer. Its "answers" is the time of a run divided by that; four
// in a row are the lower bound.
func BenchmarkRun(b *testing.B) {
	const latency = 100 * time.Millisecond
	for b.Loop() {
		b.StopTimer()
		s := newScene(b, plenty, "[trending]", &youtubetest.Options{Latency: latency}, "US", "GB", "DE", "FR", "IN",
			"BR", "MX", "JP")
		b.StartTimer()
		if report := s.run(b, b.Context()); report.Outcome != jobs.Complete {
			b.Fatalf("%s: %v", report.Outcome, report.Err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/latency.Seconds(), "answers/op")
}
