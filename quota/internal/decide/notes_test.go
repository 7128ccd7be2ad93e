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
	again := lost(heard(1, 3, time.Hour, 611))
	again.Entries = []quota.Entry{call(2, 2, time.Minute, 1)}
	for range 2 {
		o.Restore(again)
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

// TestNoteThatItsBudgetDoesNotCover: calls of another host were in the log of a
// statement about a region only as a note for all calls. When that host
// restored them, the note of the region was shortened, although the statement
// had not counted the other note.
func TestNoteThatItsBudgetDoesNotCover(t *testing.T) {
	region := quota.NewCoverage(quota.Coverage{Regions: []string{"EU"}})
	of := func(h quota.WindowUse) quota.WindowUse { h.Budget, h.Coverage = "eu", region; return h }
	o := restorer()
	r := lost(of(heard(2, 1, 5*time.Hour, 107)), heard(2, 2, 3*time.Hour, 208), of(heard(2, 4, time.Hour, 107)))
	r.Lives = []quota.Life{{Client: 2, Epoch: 2, Since: noon.Add(-4 * time.Hour)}, {Client: 2, Epoch: 4, Since: noon.Add(-2 * time.Hour)}}
	o.Restore(r)
	other := call(5, 1, 4*time.Hour, 101)
	other.Caller.Region = "EU"
	o.Restore(&quota.Restoration{Entries: []quota.Entry{other}, Lives: []quota.Life{{Client: 5, Epoch: 2, Since: other.At}}})
	noted := quota.Units(0)
	for i := range o.Entries {
		if e := &o.Entries[i]; e.Kind == quota.EntryNote && region.Covers(e.Method, e.Caller) {
			noted += e.Units
		}
	}
	if noted != 107 {
		t.Errorf("%+v; want notes of 107 units for the region, beside the 101", o.Entries)
	}
}

// TestStatementOfThePresentLogIsNoted: when a call has cost less than a host
// heard, each restoration after an outage would note the difference again, and
// at a later time. Only the loss of the log makes it necessary.
func TestStatementOfThePresentLogIsNoted(t *testing.T) {
	o := restorer(call(2, 1, time.Hour, 5))
	o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(9, 3, time.Minute, 50)}})
	if units(o) != 5 {
		t.Errorf("%+v; want the call alone", o.Entries)
	}
	o.Restore(lost(o.Heard...))
	if units(o) != 50 {
		t.Errorf("%+v of a lost log; want a note of the other 45", o.Entries)
	}
}

// TestNotesShareAnID: a ledger that knows entries by their ids would take two
// notes for one.
func TestNotesShareAnID(t *testing.T) {
	o := restorer()
	day, week, long := heard(9, 3, 2*time.Hour, 10), heard(9, 3, time.Hour, 30), heard(9, 2, 3*time.Hour, 3*quota.MaxUnits)
	week.Budget, long.Budget = "week", "long"
	o.Restore(lost(day, week, long))
	seen := map[quota.ID]bool{}
	for i := range o.Entries {
		if e := &o.Entries[i]; seen[e.ID] || e.Kind != quota.EntryNote {
			t.Errorf("%+v; want notes with ids of their own", e)
		}
		seen[o.Entries[i].ID] = true
	}
	if len(seen) != 5 { // three of the largest entries, and one for each of the others
		t.Errorf("%d notes; want 5", len(seen))
	}
}

// TestRaiseIsTheNewestEntry: a host looks for what a restoration says is known.
// A raised call is in older copies of the log, too; what the host knew before,
// and the log holds, need not be.
func TestRaiseIsTheNewestEntry(t *testing.T) {
	newest := call(2, 7, time.Minute, 1)
	for name, units := range map[string]quota.Units{"raised": 3, "nothing new": 1} {
		o := restorer(call(1, 1, time.Hour, 1), newest)
		done := o.Restore(&quota.Restoration{Known: quota.Receipt{ID: newest.ID, At: newest.At, Epoch: 3}, Entries: []quota.Entry{call(1, 1, time.Hour, units)}})
		if done.Known.ID != newest.ID || done.Units != units-1 {
			t.Errorf("%s: %+v; want that the newest entry stays known", name, done)
		}
	}
}

// TestGapOutlastsItsCopy: what was said of a used copy, just before the
// ledger's clock stepped back and the copy got another epoch, was taken for
// what the right log held. What was said long after that is of the right log,
// which is back.
func TestGapOutlastsItsCopy(t *testing.T) {
	since := noon.Add(-5 * time.Hour)
	gap := quota.Gap{Epoch: 3, From: since, To: noon.Add(-2 * time.Hour), Until: noon.Add(-time.Hour)}
	for after, used := range map[time.Duration]quota.Units{
		time.Minute:      5 + 10, // of the copy
		10 * time.Minute: 5 + 20 + 10,
	} {
		o := restorer()
		o.Epoch = 4
		r := lost(heard(9, 3, time.Hour-after, used))
		r.Entries = []quota.Entry{call(1, 1, 5*time.Hour, 5), call(1, 2, 4*time.Hour, 20)}
		r.Lives, r.Gaps = []quota.Life{{Client: 1, Epoch: 3, Since: since}}, []quota.Gap{gap}
		o.Restore(r)
		if units(o) != 5+20+10 {
			t.Errorf("%s after the end of the copy: %d units; want 35", after, units(o))
		}
	}
}

// TestCallsThatHaveLeftTheLog: a statement counted calls that the log no longer
// keeps. Those of its own client are taken from it, unless its log had not held
// them, and the rest is noted.
func TestCallsThatHaveLeftTheLog(t *testing.T) {
	r := lost(heard(1, 2, 9*time.Hour, 100))
	r.Entries = []quota.Entry{call(1, 1, 28*time.Hour, 60), call(1, 2, 34*time.Hour, 8), call(1, 3, 29*time.Hour, 5)}
	r.Lives = []quota.Life{{Client: 1, Epoch: 2, Since: noon.Add(-40 * time.Hour)}, {Client: 1, Seq: 3, Epoch: 4, Since: noon.Add(-30 * time.Hour)}}
	o := restorer()
	for range 2 {
		o.Restore(r)
		if len(o.Entries) != 1 || units(o) != 40 {
			t.Errorf("%+v; want a note of 40: of 100, 60 were of a call in the window", o.Entries)
		}
	}
}
