package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
)

// TestCell holds that a spreadsheet runs nothing that came from outside.
func TestCell(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "-": "-", "search.list": "search.list", "a=b": "a=b", "é": "é", " ": " ", `"`: `"`,
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@sum": "'@sum", " =1": "' =1", `"=1"`: `'"=1"`, "'=1": "''=1", "--": "'--",
		"\t=1": `"\t=1"`, "\x1b[2J": `"\x1b[2J"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`,
	} {
		if got := cell(name); got != want {
			t.Errorf("cell(%q) = %q; want %q", name, got, want)
		}
	}
}

// TestSums adds up by what is asked, who spent most first, and keeps accounts apart.
func TestSums(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	entry := func(minute int, account, region string, units, calls int64) logged {
		return logged{At: at.Add(time.Duration(minute) * time.Minute), Account: account, Region: region, Units: quota.Units(units), Calls: quota.Units(calls)}
	}
	got := sums([]logged{entry(0, "p", "GB", 1, 1), entry(1, "p", "IN", 100, 1), entry(2, "q", "GB", 7, 1), entry(3, "p", "GB", 49, 1), entry(4, "p", "GB", 50, 0), entry(5, "p", "-", 0, 1)}, "region")
	want := []sum{
		{"region", "GB", "p", 100, 2, 0.5, at, at.Add(4 * time.Minute)},
		{"region", "IN", "p", 100, 1, 0.5, at.Add(time.Minute), at.Add(time.Minute)},
		{"region", "GB", "q", 7, 1, 1, at.Add(2 * time.Minute), at.Add(2 * time.Minute)},
		{"region", "-", "p", 0, 1, 0, at.Add(5 * time.Minute), at.Add(5 * time.Minute)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
}
