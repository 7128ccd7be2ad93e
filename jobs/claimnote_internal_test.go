package jobs

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/quota"
)

// TestANoteKeepsTheFurthestCheckpoint: what is packed is read, the furthest
// checkpoint of each step counts, and notes that are malformed or of other
// steps do not.
func TestANoteKeepsTheFurthestCheckpoint(t *testing.T) {
	region := &Region{Steps: []Step{{Kind: Trending}, {Kind: Search, Query: strings.Repeat("ü", 100)},
		{Kind: Categories}}}
	trending, search := region.Steps[0].Name(), region.Steps[1].Name()
	long := strings.Repeat("x", quota.MaxClaimNote-10)
	var notes []string
	for _, n := range []struct {
		step string
		at   catalog.Checkpoint
	}{
		{trending, catalog.Checkpoint{Pages: 2, Videos: 100, Next: "CGQQAA"}},
		{trending, catalog.Checkpoint{Pages: 1, Videos: 50, Next: "CDIQAA"}}, // noted late
		{search, catalog.Checkpoint{Pages: 1 << 20, Videos: 1 << 30, Next: long}},
		{search, catalog.Checkpoint{Pages: 1 << 20, Videos: 1 << 30, Done: true}},
		{"other", catalog.Checkpoint{Pages: 9}},
	} {
		notes = append(notes, string(packCheckpoint(n.step, n.at)))
	}
	for cut := range notes[0] {
		notes = append(notes, notes[0][:cut])
	}
	steps := readNotes(region, notes)
	if len(steps) != 2 || steps[trending] != (catalog.Checkpoint{Pages: 2, Videos: 100, Next: "CGQQAA"}) ||
		steps[search] != (catalog.Checkpoint{Pages: 1 << 20, Videos: 1 << 30, Done: true}) {
		t.Errorf("the steps are %+v", steps)
	}
	if note := packCheckpoint(trending,
		catalog.Checkpoint{Pages: 1, Next: strings.Repeat("x", quota.MaxClaimNote)}); note != nil {
		t.Errorf("a note of %d bytes", len(note))
	}
}

// TestADonePassStaysDoneUntilItsNextTick: a pass stays done until its next
// tick, also on a host whose clock is an hour late, or a day late if ticks are
// an hour or more apart.
func TestADonePassStaysDoneUntilItsNextTick(t *testing.T) {
	tick := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for interval, late := range map[time.Duration]time.Duration{
		time.Minute: time.Hour, time.Hour: 24 * time.Hour, 6 * time.Hour: 24 * time.Hour,
		7 * 24 * time.Hour: 24 * time.Hour,
	} {
		if again := doneFor(tick, tick.Add(interval)); again < interval+late {
			t.Errorf("every %v: done for %v", interval, again)
		}
	}
	if again := doneFor(tick, time.Time{}); again != maxAgain {
		t.Errorf("without a next tick: done for %v", again)
	}
}

// TestTheOwnerOfAPassIsThisHostAndProcess: the owner of a pass is this host and
// process.
func TestTheOwnerOfAPassIsThisHostAndProcess(t *testing.T) {
	for owner, want := range map[string]string{"a/7/00ff": "a", "a/b/7/00ff": "a/b", "": "", "odd": "odd"} {
		if host, _ := parseOwner(owner); host != want {
			t.Errorf("%q is host %q; want %q", owner, host, want)
		}
	}
	if owner := newOwner("web-1"); owner == newOwner("web-1") || len(owner) > quota.MaxClaimNote {
		t.Errorf("owner %q", owner)
	}
}
