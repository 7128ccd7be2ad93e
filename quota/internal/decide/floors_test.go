package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
)

// spent is a List in a slice that counts how often it is searched.
type spent struct {
	records  []record
	searched int
}

type record struct{ stamp, units int64 }

func (s *spent) Newest() (stamp, total int64) {
	for _, r := range s.records {
		stamp, total = r.stamp, total+r.units
	}
	return stamp, total
}

func (s *spent) Before(at int64) (total int64) {
	for _, r := range s.records {
		if r.stamp < at {
			total += r.units
		}
	}
	return total
}

func (s *spent) Reach(total int64) int64 {
	s.searched++
	i := slices.IndexFunc(s.records, func(r record) bool { total -= r.units; return total <= 0 })
	return s.records[i].stamp
}

// TestBesideFloors compares the search for the instant at which an amount fits
// beside floors with a scan of every record.
func TestBesideFloors(t *testing.T) {
	window := quota.Sliding(time.Hour)
	rapid.Check(t, func(t *rapid.T) {
		all, regions := &spent{}, []*spent{{}, {}, {}} // the last has no floor
		stamp := int64(1e15)
		for range rapid.IntRange(0, 6).Draw(t, "runs") {
			region := regions[rapid.IntRange(0, 2).Draw(t, "region")]
			most := rapid.SampledFrom([]int64{0, 1, 3, 1000}).Draw(t, "most")
			for range rapid.IntRange(1, 150).Draw(t, "run") {
				stamp += rapid.Int64Range(1, 10e6).Draw(t, "later")
				r := record{stamp, rapid.Int64Range(0, most).Draw(t, "units")}
				all.records, region.records = append(all.records, r), append(region.records, r)
			}
		}
		q := Question{Now: stamp + rapid.Int64Range(0, 3600e6).Draw(t, "now"), Window: &window, Limit: rapid.Int64Range(1, 30_000).Draw(t, "limit")}
		left := q.Limit
		for i := range 2 {
			q.Floors = append(q.Floors, Floor{regions[i], rapid.Int64Range(0, left).Draw(t, "floor")})
			left -= q.Floors[i].Units
		}
		amount := rapid.Int64Range(0, left).Draw(t, "amount")

		taken := func(now int64) int64 {
			since := now - window.Length().Microseconds() + 1
			return usedSince(all, since) + q.kept(since) + amount
		}
		want, instants := int64(0), []int64{q.Now}
		for _, r := range all.records {
			instants = append(instants, max(q.Now, r.stamp+window.Length().Microseconds()))
		}
		for _, at := range instants {
			if taken(at) <= q.Limit {
				want = at
				break
			}
		}
		if want == q.Now {
			want = 0
		}
		if fit := q.Fits(all, amount); fit.RetryAt != want || fit.Used+fit.Kept+amount != taken(q.Now) {
			t.Fatalf("%+v; want from %d on, and %d taken", fit, want, taken(q.Now))
		}
	})
}

// TestBesideFloorsInFewSteps has thousands of records whose units all return to
// a floor.
func TestBesideFloorsInFewSteps(t *testing.T) {
	const n = 4000
	window := quota.Sliding(time.Hour)
	all, india := &spent{}, &spent{}
	for i := range int64(n) {
		india.records = append(india.records, record{1e15 + i, 1})
	}
	all.records = append(slices.Clone(india.records), record{1e15 + n, 100})
	q := Question{Now: 1e15 + n, Window: &window, Limit: n + 100, Floors: []Floor{{india, n}}}
	if fit := q.Fits(all, 1); fit.RetryAt != all.records[n].stamp+window.Length().Microseconds() {
		t.Errorf("%+v; want to wait for the last record", fit)
	}
	if all.searched > 2*13 { // for 2^12 units
		t.Errorf("searched %d times", all.searched)
	}
}
