package decide_test

import (
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
		o.Restore(&quota.Restoration{Entries: []quota.Entry{call(2, 2, time.Minute, 1)}, Heard: []quota.Heard{heard(1, 3, time.Hour, 611)}})
		if units(o) != 612 || o.Entries[0] != copied {
			t.Errorf("%d units, the first of %+v; want the copied note, and 12 more", units(o), o.Entries[0])
		}
	}
}
