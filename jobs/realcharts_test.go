package jobs_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestTheLedgerOfRealChartsIsTheUpstreamsCount fetches recorded charts of 2020,
// if present, and compares the ledger with the upstream's count, unit for unit.
func TestTheLedgerOfRealChartsIsTheUpstreamsCount(t *testing.T) {
	data, err := youtubetest.LoadFile(filepath.Join("..", "..", "shared", "data", "trending_sample.ndjson.gz"))
	if err != nil {
		t.Logf("no real charts here: %v; the other tests run on made ones", err)
		return
	}
	s := newScene(t, plenty, "[trending, {search: {queries: [music]}}, channels, categories]",
		&youtubetest.Options{Data: data}, data.Regions()...)
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Complete {
		t.Fatalf("%s: %v", report.Outcome, report.Err)
	}
	t.Logf("%d regions, %d units in the ledger, %d counted by the upstream", len(report.Regions), s.agree(t),
		s.upstream.Total())
	for _, region := range data.Regions() {
		for _, v := range data.Chart(region) {
			if strings.TrimSpace(v.ID) == "" {
				t.Fatalf("%s has a video without an id", region)
			}
		}
	}
}

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
