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
