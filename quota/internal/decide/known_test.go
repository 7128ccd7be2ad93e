package decide_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestRestorationForgetsTheNewestEntry: a host without calls of its own would
// not notice that the log loses its tail again.
func TestRestorationForgetsTheNewestEntry(t *testing.T) {
	o := restorer(call(1, 1, time.Hour, 5), call(2, 7, time.Minute, 5))
	if known := o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(9, 3, time.Hour, 5)}}).Known; known.ID != o.Entries[1].ID || !known.At.Equal(o.Entries[1].At) {
		t.Errorf("knows %+v; want the newest entry", known)
	}
	// One that it had before would still be there if it lost what was restored.
	added := call(1, 2, 2*time.Minute, 5)
	done := o.Restore(&quota.Restoration{Entries: []quota.Entry{call(2, 7, time.Minute, 5), added}})
	if done.Known.ID != added.ID || !done.Newest.Equal(noon.Add(-time.Minute)) {
		t.Errorf("knows %+v, newest %s; want the entry that was missing, and the time of the newest", done.Known, done.Newest)
	}
	o = restorer()
	if known := o.Restore(&quota.Restoration{}).Known; known.ID != (quota.ID{}) {
		t.Errorf("knows %+v of an empty log", known)
	}
	// What another host restores takes the place of a note.
	o = restorer(call(1, 1, 2*time.Hour, 5))
	if known := o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(9, 2, time.Hour, 50)}}).Known; known.ID.Client != 1 || len(o.Entries) != 2 {
		t.Errorf("knows %+v of %+v; want the call", known, o.Entries)
	}
}

// TestRestorationIsRepeated: the answer to a restoration was lost, and the next
// one named an entry that had been in the log before. So the host did not miss
// what it had restored, in an older copy that has the entry.
func TestRestorationIsRepeated(t *testing.T) {
	before, restored := call(2, 1, time.Hour, 5), call(7, 1, 2*time.Hour, 3)
	o := restorer(before)
	r := &quota.Restoration{Known: quota.Receipt{ID: before.ID, At: before.At, Epoch: 3}, Entries: []quota.Entry{restored, before},
		Lives: []quota.Life{{Client: 2, Epoch: 3, Since: before.At}, {Client: 7}}}
	for range 2 {
		if known := o.Restore(r).Known; known.ID != restored.ID || !known.At.Equal(restored.At) {
			t.Errorf("knows %+v; want what was restored", known)
		}
		o.Now = o.Now.Add(time.Second)
	}
}

// TestRaiseAfterAnAcceptedLoss: what a call cost more in an outage was given up
// if the call was older than an accepted loss, although the log had it.
func TestRaiseAfterAnAcceptedLoss(t *testing.T) {
	accepted := quota.Entry{ID: quota.ID{Client: 9, Seq: 1}, At: noon.Add(-time.Hour), Kind: quota.EntryNote, Method: "ledger.accept-loss"}
	for _, test := range []struct {
		isLost bool
		want   quota.Units
	}{{false, 101}, {true, 1}} {
		o := restorer(call(1, 1, 2*time.Hour, 1), accepted)
		raised := &quota.Restoration{Lost: test.isLost, Entries: []quota.Entry{call(1, 1, 2*time.Hour, 101), call(1, 2, 3*time.Hour, 7)}}
		for range 2 {
			if o.Restore(raised); units(o) != test.want {
				t.Errorf("lost %v: %d units; want %d", test.isLost, units(o), test.want)
			}
		}
	}
}
