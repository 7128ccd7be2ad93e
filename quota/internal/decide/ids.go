package decide

import "github.com/ration-dev/ration/quota"

// shortID is what every ledger keeps of an id.
type shortID struct {
	client uint64
	seq    uint32
}

func short(id quota.ID) shortID { return shortID{id.Client, uint32(id.Seq)} }

// sameID are the entries of a log with one id: several if there are additions,
// or if the id was used again.
type sameID struct {
	places []int // in Restorer.Entries, by stamp
	units  quota.Units
	seen   int         // different ones of a restoration so far
	last   int64       // the stamp of the last of these
	said   quota.Units // their units
}

func (s *sameID) add(place int, units quota.Units) {
	s.places, s.units = append(s.places, place), s.units+units
}

// next makes an entry of the restoration the next one of its id, unless it
// repeats the last. It returns its match, if the log has one. Of several
// entries, those that the log has dropped are skipped.
func (o *Restorer) next(s *sameID, e *quota.Entry, several func(quota.ID) bool) (have *quota.Entry, skip bool) {
	at := e.At.UnixMicro()
	isNew := s.seen == 0 || at > s.last
	place := s.seen
	if !isNew {
		place--
	}
	if place < len(s.places) {
		have = &o.Entries[s.places[place]]
	}
	if e.At.Before(o.Oldest) {
		isDropped := have == nil || !have.At.Equal(e.At) && several(e.ID)
		if isDropped {
			o.apart = append(o.apart, *e)
			return nil, true
		}
	}
	if isNew {
		s.seen++
		s.last = at
		s.said += e.Units
	}
	return have, false
}

// repeated returns whether entries has several of an id. It counts them when it
// is first asked.
func repeated(entries []quota.Entry) func(quota.ID) bool {
	var counts map[shortID]int
	return func(id quota.ID) bool {
		if counts == nil {
			counts = make(map[shortID]int, len(entries))
			for i := range entries {
				counts[short(entries[i].ID)]++
			}
		}
		return counts[short(id)] > 1
	}
}
