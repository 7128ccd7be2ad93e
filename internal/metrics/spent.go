package metrics

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

var (
	ofCaller = []string{"account", "method", "lane", "job"}

	spentUnits = prometheus.NewDesc("ration_spent_units",
		"Units that all processes spent in the last 24 hours, by the ledger.", ofCaller, nil)
	spentCalls = prometheus.NewDesc("ration_spent_calls", "Calls of all processes in the last 24 hours, by the ledger.",
		ofCaller, nil)
	buildInfo = prometheus.NewDesc("ration_build_info", "1, with how this program was built.",
		[]string{"version", "revision", "go"}, nil)
)

// spentOver is the time of ration_spent_*.
const spentOver = 24 * time.Hour

const (
	maxJobs  = 10  // of an account that are told apart, those that spent most
	maxSpent = 100 // series of an account; what is beyond them is Other
)

// spentBy is who spent.
type spentBy struct{ method, lane, job string }

// spending is what was spent, by the ledger.
type spending map[spentBy]quota.Amounts

func (s spending) add(by spentBy, amounts quota.Amounts) {
	sum := s[by]
	sum.Units += amounts.Units
	sum.Calls += amounts.Calls
	s[by] = sum
}

// readSpent returns what was spent of an account until a time.
func (c *Collector) readSpent(ctx context.Context, account string, until time.Time) (spending, error) {
	all, jobs := spending{}, map[string]quota.Units{}
	for sum, err := range c.guard.Sums(ctx, quota.Query{Account: account, Since: until.Add(-spentOver)}) {
		if err != nil {
			return nil, err
		}
		if sum.Amounts().IsZero() { // as of refusals and remarks
			continue
		}
		by := spentBy{c.counts.method(sum.Method), sum.Caller.Lane, usage.Spender(sum.Kind, sum.Caller.Job)}
		if !c.counts.lanes[by.lane] {
			by.lane = Other
		}
		all.add(by, quota.Amounts{Units: sum.Units, Calls: sum.Calls})
		jobs[by.job] += sum.Units
	}
	top := slices.SortedFunc(maps.Keys(jobs), func(x, y string) int {
		return cmp.Or(cmp.Compare(jobs[y], jobs[x]), cmp.Compare(x, y))
	})
	top = top[:min(len(top), maxJobs)]
	return all.bounded(func(by spentBy) spentBy {
		if by.job = printable(by.job); !slices.Contains(top, by.job) {
			by.job = Other
		}
		return by
	}), nil
}

// bounded returns the sums by other names, and at most maxSpent of them.
func (s spending) bounded(rename func(spentBy) spentBy) spending {
	renamed := spending{}
	for by, amounts := range s {
		renamed.add(rename(by), amounts)
	}
	most := slices.SortedFunc(maps.Keys(renamed), func(x, y spentBy) int {
		return cmp.Or(cmp.Compare(renamed[y].Units, renamed[x].Units), cmp.Compare(x.method, y.method),
			cmp.Compare(x.lane, y.lane), cmp.Compare(x.job, y.job))
	})
	for _, by := range most[min(len(most), maxSpent):] {
		amounts := renamed[by]
		delete(renamed, by)
		renamed.add(spentBy{Other, Other, Other}, amounts)
	}
	return renamed
}

func (s spending) send(ch chan<- prometheus.Metric, account string) {
	for by, amounts := range s {
		sendGauge(ch, spentUnits, float64(amounts.Units), account, by.method, by.lane, by.job)
		sendGauge(ch, spentCalls, float64(amounts.Calls), account, by.method, by.lane, by.job)
	}
}

// sendBuild sends ration_build_info.
func sendBuild(ch chan<- prometheus.Metric) {
	const module = "github.com/ration-dev/ration"
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module {
				version = m.Version
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && info.Main.Path == module {
				revision = s.Value
			}
		}
	}
	sendGauge(ch, buildInfo, 1, version, revision, runtime.Version())
}
