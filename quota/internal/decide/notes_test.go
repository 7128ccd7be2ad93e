package decide_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestNoteOfACopiedLogIsRemoved: a note of the log that this one was copied
// from went with the first restoration by its host, and what it had stood for
// in a budget of which the host heard nothing here was admitted again.
func TestNoteOfACopiedLogIsRemoved(t *testing.T) {
	copied := quota.Entry{ID: quota.ID{Client: 1, Seq: 77}, At: noon.Add(-2 * time.Hour), Kind: quota.EntryNote, Method: "others: searches", Units: 600}
	o := restorer(copied, call(2, 1, time.Hour, 1))
	for range 2 {
		o.Restore(&quota.Restoration{Entries: []quota.Entry{call(2, 2, time.Minute, 1)}, Heard: []quota.WindowUse{heard(1, 3, time.Hour, 611)}})
		if units(o) != 612 || o.Entries[0] != copied {
			t.Errorf("%d units, the first of %+v; want the copied note, and 12 more", units(o), o.Entries[0])
		}
	}
}

// TestNoteLeavesTooEarly: a note of one budget can cover all that another one
// held, and stand for earlier calls. Its units must stay in the window of the
// other budget for as long as the later calls can.
func TestNoteLeavesTooEarly(t *testing.T) {
	searches := heard(1, 2, 6*time.Hour, 300)
	searches.Budget, searches.Coverage = "search", quota.NewCoverage(quota.Coverage{Methods: []string{"search"}})
	for name, test := range map[string]struct {
		later quota.WindowUse
		ago   time.Duration // of the note
	}{
		"a window that needs it": {heard(2, 2, time.Hour, 300), time.Hour},
		"one that holds a call":  {heard(2, 2, time.Hour, 5), 6 * time.Hour},
	} {
		o := restorer(call(3, 1, 2*time.Hour, 5))
		lives := []quota.Life{{Client: 3, Epoch: 2, Since: noon.Add(-2 * time.Hour)}}
		o.Restore(&quota.Restoration{Heard: []quota.WindowUse{searches, test.later}, Lives: lives})
		note := o.Entries[slices.IndexFunc(o.Entries, func(e quota.Entry) bool { return e.Kind == quota.EntryNote })]
		if units(o) != 305 || note.Method != "search" || noon.Sub(note.At).Round(time.Second) != test.ago {
			t.Errorf("%s: %+v; want one note of 300 for searches, %s ago", name, o.Entries, test.ago)
		}
	}
}
