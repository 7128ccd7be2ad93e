package redisledger

import "slices"

// sources numbers the items whose keys a script is given, from 1; 0 is the
// log itself.
type sources struct {
	items []item
	names
	places []int // in items, by number from 1 on
	keys   []string
	packed []byte
}

// numbers returns the numbers of several items.
func (s *sources) numbers(places []int) []int64 {
	all := make([]int64, len(places))
	for i, place := range places {
		all[i] = s.number(place)
	}
	return all
}

func (s *sources) number(place int) int64 {
	if place < 0 || s.items[place].isLog() {
		return 0
	}
	if i := slices.Index(s.places, place); i >= 0 {
		return int64(i + 1)
	}
	it := &s.items[place]
	s.places = append(s.places, place)
	s.keys = append(s.keys, s.source(it.id))
	if it.key.length > 0 {
		s.packed = number(append(s.packed, 1, byte(it.coverage.Measure)), it.key.length, 7)
	} else {
		s.packed = number(append(s.packed, 0, byte(it.coverage.Measure)), it.horizon, 7)
	}
	return int64(len(s.keys))
}
