package replica_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// newSiblings returns two processes of one host.
func newSiblings(t *testing.T, isReal bool) (w *world, first, second *host) {
	w = newWorld(t, t.TempDir(), 1, isReal, func(now func() time.Time) engine.Ledger {
		return memledger.Open(&memledger.Options{Now: now})
	})
	t.Cleanup(w.close)
	first = w.hosts[0]
	second = &host{w: w, name: first.name, known: knowledge{}, onDisk: knowledge{}, ids: map[int]engine.ID{}}
	second.start()
	t.Cleanup(func() { second.replica.Close() })
	return w, first, second
}

// used returns what the day's window holds, as a process sees it.
func (h *host) used() (units int64) {
	h.w.Helper()
	err := h.engine.Account(accountCopy).View(context.Background(), func(v *engine.View) {
		units = v.Held(h.w.budgets("")[0], "").Used
	})
	if err != nil {
		h.w.Fatalf("%v", err)
	}
	return units
}

// TestALossRestoresWhatOtherProcessesOfTheHostKnew: a process that lives on
// restores what the others have left on the disk, after a loss that it notices
// itself, and after one that only they would have.
func TestALossRestoresWhatOtherProcessesOfTheHostKnew(t *testing.T) {
	for _, isReal := range []bool{false, true} {
		t.Run(fmt.Sprintf("emptied,real=%t", isReal), func(t *testing.T) {
			w, first, second := newSiblings(t, isReal)
			first.spend("list", 1)
			second.spend("list", dayLimit-3)
			w.empty()
			if first.spend("list", 3) {
				t.Error("granted beyond the limit")
			}
			if used := first.used(); used != dayLimit-2 {
				t.Errorf("%d units are used, want %d", used, dayLimit-2)
			}
		})
		t.Run(fmt.Sprintf("tail lost,real=%t", isReal), func(t *testing.T) {
			w, first, second := newSiblings(t, isReal)
			first.spend("list", 1)
			copied := w.copy()
			second.spend("list", 5)
			w.replace(copied)
			first.spend("list", 1)
			if used := first.used(); used != 7 {
				t.Errorf("%d units are used, want 7", used)
			}
		})
	}
}

// TestRestoredTimestampsOfAWrongClockAreCorrected restores a call that was
// stamped by a clock that is 25 hours ahead, before and after that is
// corrected.
func TestRestoredTimestampsOfAWrongClockAreCorrected(t *testing.T) {
	for _, isBefore := range []bool{true, false} {
		t.Run(fmt.Sprintf("restored before=%t", isBefore), func(t *testing.T) {
			w, first, _ := newSiblings(t, false)
			const ahead = 25 * time.Hour
			w.now = w.now.Add(ahead)
			first.spend("list", 5)
			if isBefore {
				w.empty()
				first.used()
			}
			w.now = w.now.Add(-ahead)
			if !isBefore {
				w.empty()
			}
			first.used()
			first.spend("list", 1) // whose round corrects the clock
			w.now = w.now.Add(24*time.Hour + time.Minute)
			if used := first.used(); used != 0 {
				t.Errorf("%d units are used a day after the clock was corrected, want 0", used)
			}
		})
	}
}

// TestAProcessThatLivesOnLoadsAfterPruning: the file in which the log began for
// it is gone.
func TestAProcessThatLivesOnLoadsAfterPruning(t *testing.T) {
	f := newFixture(t)
	f.keep = 24 * time.Hour
	l := (&replicaLog{epoch: 7}).add(1, 2, 3, 4)
	r := f.open()
	for i := range l.batches {
		l.batches[i].At = f.now.UnixMicro()
		l.save(r, i, i+1)
		f.now = f.now.Add(3 * 24 * time.Hour)
	}
	if files := f.files(); len(files) != 2 {
		t.Fatalf("the files are %v, want two", files)
	}
	f.want(f.load(r), "7/3=3 7/4=4")
}
