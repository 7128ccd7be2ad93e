//go:build !race

package sim

import "time"

// knowledge is what the ledger must know of a sending that a budget covers.
type knowledge struct {
	since  time.Time // when it must count it; never while it cannot
	lost   time.Time // when it last forgot it
	memory uint64    // the hosts that have heard of the budget since, and can restore it
}

func (s *sending) knownSince(t time.Time) {
	for i := range s.counts {
		s.counts[i].since = t
	}
}

// restore notes a grant to a host, which asked at begin: before that it has
// restored its own sendings, and what it has heard of each budget.
func (s *sending) restore(host int, begin, granted time.Time) {
	own := s.host == host && s.decided.Before(begin)
	for i := range s.counts {
		k := &s.counts[i]
		if k.since.Equal(never) && !k.lost.After(begin) && (own || k.memory&(1<<host) != 0) {
			k.since = granted
		}
	}
}

// forget notes that the ledger forgets a sending, and reports whether it has
// known it.
func (s *sending) forget(hosts []*host) (known bool) {
	for i := range s.counts {
		k := &s.counts[i]
		if k.since.Equal(never) {
			continue
		}
		for _, h := range hosts {
			if !h.told[i].Before(k.since) {
				k.memory |= 1 << h.number
			}
		}
		k.since, k.lost, known = never, time.Now(), true
	}
	return known
}
