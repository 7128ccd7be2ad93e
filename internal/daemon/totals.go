package daemon

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// addTotals adds counters and histograms to those of the same names and labels,
// and returns all families in the order of their names. It does not change
// more.
func addTotals(to, more []*dto.MetricFamily) []*dto.MetricFamily {
	byName := map[string]*dto.MetricFamily{}
	for _, family := range to {
		byName[family.GetName()] = family
	}
	for _, family := range more {
		same := byName[family.GetName()]
		if same == nil {
			to = append(to, proto.CloneOf(family))
			continue
		}
		addFamily(same, family)
	}
	slices.SortFunc(to, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return to
}

func addFamily(to, more *dto.MetricFamily) {
	byLabels := map[string]*dto.Metric{}
	for _, m := range to.Metric {
		byLabels[labelsOf(m)] = m
	}
	for _, m := range more.Metric {
		same := byLabels[labelsOf(m)]
		switch {
		case same == nil:
			to.Metric = append(to.Metric, proto.CloneOf(m))
		case same.Counter != nil:
			same.Counter.Value = proto.Float64(same.Counter.GetValue() + m.Counter.GetValue())
		case same.Histogram != nil:
			addHistogram(same.Histogram, m.Histogram)
		}
	}
}

func labelsOf(m *dto.Metric) string {
	var b strings.Builder
	for _, label := range m.Label { // sorted by name
		fmt.Fprintf(&b, "%q=%q,", label.GetName(), label.GetValue())
	}
	return b.String()
}

// addHistogram adds a histogram of the same buckets.
func addHistogram(to, more *dto.Histogram) {
	to.SampleCount = proto.Uint64(to.GetSampleCount() + more.GetSampleCount())
	to.SampleSum = proto.Float64(to.GetSampleSum() + more.GetSampleSum())
	for i, bucket := range to.Bucket {
		bucket.CumulativeCount = proto.Uint64(bucket.GetCumulativeCount() + more.Bucket[i].GetCumulativeCount())
	}
}
