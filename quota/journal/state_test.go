package journal

import (
	"maps"
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestEarlierLifeHeldLaterGrants: a life of the log that ended before a grant would be
// taken for one that counted it, and so would a life that was left without the ledger
// before the outage was restored.
func TestEarlierLifeHeldLaterGrants(t *testing.T) {
	s := newState()
	for i, epoch := range []uint64{1, 2, 2, 0, 2} {
		r := record{kind: granted, at: int64(100 * (i + 1)), id: quota.ID{Client: 5, Seq: uint64(i + 1)}, epoch: epoch, units: 1, calls: 1}
		if epoch == 0 {
			r.kind = owed
		}
		s.see(&r)
	}
	got := map[quota.ID]map[uint64]int64{}
	for _, life := range s.lives(9) {
		id := quota.ID{Client: life.Client, Seq: life.Seq}
		if got[id] == nil {
			got[id] = map[uint64]int64{}
		}
		got[id][life.Epoch] = life.Since.UnixMicro()
	}
	want := map[quota.ID]map[uint64]int64{
		{Client: 9}:         {1: 100, 2: 200},
		{Client: 5}:         {1: 100, 2: 200}, // the first grant
		{Client: 5, Seq: 2}: {2: 200},
		{Client: 5, Seq: 4}: {2: 500}, // of the outage, which the fifth grant counted
	}
	if !maps.EqualFunc(got, want, maps.Equal[map[uint64]int64, map[uint64]int64]) {
		t.Errorf("%v; want %v", got, want)
	}
}

// TestNotesMultiply: what the notes of a restoration add to a full window would be
// heard in a refusal, and noted once more after the next loss. What a grant said at a
// higher limit stays.
func TestNotesMultiply(t *testing.T) {
	for _, c := range []struct{ granted, refused, limit, want quota.Units }{
		{420, 500, 500, 500},
		{420, 930, 500, 500},
		{420, 430, 125, 420},
		{80, 430, 125, 125},
	} {
		s := newState()
		s.see(&record{kind: granted, at: 100, id: quota.ID{Client: 5, Seq: 1}, epoch: 1, units: 1, calls: 1, heard: []use{{"day", c.granted}}})
		s.see(&record{kind: refused, at: 200, epoch: 1, units: c.limit, heard: []use{{"day", c.refused}}})
		if h := s.heard[subject{"day", 1}]; h.used != c.want || h.at != 200 {
			t.Errorf("granted at %d, refused at %d of %d: heard %d at %d; want %d at 200", c.granted, c.refused, c.limit, h.used, h.at, c.want)
		}
	}
}
