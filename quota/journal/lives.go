package journal

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// stay is a time without interruption that this host spent in one life of the
// log, or without the ledger.
type stay struct {
	epoch uint64           // 0 without the ledger
	since int64            // the first grant or refusal
	lives map[uint64]int64 // by epoch, when this life and later ones first counted the grants of this stay
}

// stayIndex has the stays of this host, oldest first, and the number of the one
// of each grant.
type stayIndex struct {
	all     []stay
	of      map[quota.ID]int
	givenUp map[quota.ID][]uint64 // of the state
}

// livesOf returns since when each life of the log held a grant, or with the
// client of the host alone, what the host had heard first.
func (s stayIndex) livesOf(id quota.ID) map[uint64]int64 {
	if len(s.all) == 0 {
		return nil
	}
	held := s.all[s.of[id]].lives
	for _, epoch := range s.givenUp[id] {
		if _, ok := held[epoch]; ok {
			held = maps.Clone(held)
			delete(held, epoch)
		}
	}
	return held
}

func (s *state) stays() stayIndex {
	var grants []*grant
	for _, g := range s.grants {
		if g.key == "" {
			grants = append(grants, g)
		}
	}
	slices.SortFunc(grants, func(a, b *grant) int {
		return cmp.Or(cmp.Compare(a.counted(), b.counted()), cmp.Compare(a.back, b.back), cmp.Compare(a.id.Client, b.id.Client), cmp.Compare(a.id.Seq, b.id.Seq))
	})
	var all []stay
	visits := slices.SortedFunc(slices.Values(s.visits), func(a, b visit) int { return cmp.Compare(a.at, b.at) })
	enter := func(epoch uint64, at int64) {
		if len(all) == 0 || all[len(all)-1].epoch != epoch {
			all = append(all, stay{epoch: epoch, since: at})
		}
	}
	of := make(map[quota.ID]int, len(grants))
	for _, g := range grants {
		for ; len(visits) > 0 && visits[0].at < g.counted(); visits = visits[1:] {
			enter(visits[0].epoch, visits[0].at)
		}
		epoch := g.epoch
		if g.down {
			epoch = 0
		}
		enter(epoch, g.counted())
		of[g.id] = len(all) - 1
	}
	for _, v := range visits {
		enter(v.epoch, v.at)
	}
	lives := map[uint64]int64{}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].epoch != 0 {
			lives[all[i].epoch] = all[i].since
		}
		all[i].lives = maps.Clone(lives)
	}
	return stayIndex{all, of, s.givenUp}
}

// held reports whether a life of the log had counted a grant at a time.
func (s stayIndex) held(id quota.ID, epoch uint64, at int64) bool {
	if _, isKept := s.of[id]; !isKept {
		return false
	}
	since, isLater := s.livesOf(id)[epoch]
	return isLater && since <= at
}

// lives returns since when each life of the log held what this host was
// granted. The life that granted it held it at once. A later life held it since
// this host's first answer there, before which the host had restored it. What
// the host has heard is among the lives of its own client.
func (s stayIndex) lives(client uint64) (lives []quota.Life) {
	add := func(id quota.ID, since map[uint64]int64) {
		if len(since) == 0 {
			lives = append(lives, quota.Life{Client: id.Client, Seq: id.Seq})
		}
		for epoch, at := range since {
			lives = append(lives, quota.Life{Client: id.Client, Seq: id.Seq, Epoch: epoch, Since: decide.Time(at)})
		}
	}
	own := quota.ID{Client: client}
	add(own, s.livesOf(own))
	ids := slices.SortedFunc(maps.Keys(s.of), func(a, b quota.ID) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Seq, b.Seq))
	})
	for i, id := range ids {
		held := s.livesOf(id)
		switch isFirst := i == 0 || ids[i-1].Client != id.Client; {
		case isFirst:
			add(quota.ID{Client: id.Client}, held)
		case !maps.Equal(held, s.livesOf(ids[i-1])):
			add(id, held)
		}
	}
	return lives
}

// learnt returns the records of what a restoration says of the log that this
// host did not know: gaps, and what is given up.
func (a *account) learnt(known []quota.Gap, result *quota.RestoreResult) (records []record) {
	_ = a.withState(func(s *state) error { // after an error, nothing can be written either
		for _, id := range result.GivenUp {
			if !slices.Contains(s.givenUp[id], result.Known.Epoch) {
				records = append(records, record{kind: givenUp, id: id, epoch: result.Known.Epoch})
			}
		}
		return nil
	})
	for _, gap := range result.Gaps {
		if !slices.ContainsFunc(known, func(have quota.Gap) bool { return decide.SameGap(have, gap) }) {
			records = append(records, record{kind: lacked, at: gap.To.UnixMicro(), skew: gap.From.UnixMicro(), epoch: gap.Epoch, units: quota.Units(decide.StampOrZero(gap.Until))})
		}
	}
	return records
}

func (r *record) gap() quota.Gap {
	return quota.Gap{Epoch: r.epoch, From: decide.Time(r.skew), To: decide.Time(r.at), Until: decide.TimeOrZero(int64(r.units))}
}
