package plan

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
)

// TestAMergedHistoryFreesNothingEarly draws a history: merged, each window that
// ends with its newest entry holds at least as much as before, by at most a
// slice more, and all of it together the same.
func TestAMergedHistoryFreesNothingEarly(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		labels := []*label{{Method: "a"}, {Method: "b"}}
		var entries []HeldEntry
		for range rapid.IntRange(1, 200).Draw(d, "entries") {
			at = at.Add(time.Duration(rapid.IntRange(1, 3000).Draw(d, "milliseconds")) * time.Millisecond)
			entries = append(entries, HeldEntry{At: at, label: rapid.SampledFrom(labels).Draw(d, "method"),
				Units: quota.Units(rapid.IntRange(0, 9).Draw(d, "units")), Calls: 1})
		}
		slice := time.Duration(rapid.IntRange(1, 60).Draw(d, "seconds")) * time.Second
		held := func(entries []HeldEntry, method string, since time.Time) (units, calls quota.Units) {
			for _, e := range entries {
				if e.Method == method && !e.At.Before(since) {
					units, calls = units+e.Units, calls+e.Calls
				}
			}
			return units, calls
		}
		merged := merge(slices.Clone(entries), slice)
		for i := range merged {
			if i > 0 && !merged[i].At.After(merged[i-1].At) {
				d.Fatalf("%s after %s", merged[i].At, merged[i-1].At)
			}
		}
		for _, method := range []string{"a", "b"} {
			for age := time.Duration(0); age < 10*time.Minute; age += 7 * time.Second {
				since := at.Add(-age)
				units, calls := held(merged, method, since)
				least, leastCalls := held(entries, method, since)
				most, mostCalls := held(entries, method, since.Add(-slice))
				if units < least || units > most || calls < leastCalls || calls > mostCalls {
					d.Fatalf("since %s: %d units, %d calls; want %d to %d, %d to %d", since, units, calls, least, most,
						leastCalls, mostCalls)
				}
			}
		}
	})
}

// TestHistoryIsKeptInConstantMemory: a plan held each entry of a long log, and
// later the names in each of those that it kept.
func TestHistoryIsKeptInConstantMemory(t *testing.T) {
	var s State
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var want, got quota.Units
	before := liveBytes()
	for i := range 4 * maxEntries {
		at = at.Add(50 * time.Millisecond)
		e := quota.Entry{At: at, Method: strings.Clone([]string{"a.list", "b.list", "c.list"}[i%3]),
			Units: quota.Units(i % 5), Calls: 1}
		s.Add("p", &e)
		want += e.Units
	}
	if live := liveBytes() - before; live > 100*maxEntries {
		t.Errorf("%d bytes for at most %d entries", live, maxEntries)
	}
	entries := s.Entries["p"]
	for _, e := range entries {
		got += e.Units
	}
	if len(entries) > maxEntries || got != want || !entries[len(entries)-1].At.Equal(at) {
		t.Errorf("%d entries of %d units, the last at %s; want at most %d, %d units, %s", len(entries), got,
			entries[len(entries)-1].At, maxEntries, want, at)
	}
}

func liveBytes() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
