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

// restore notes a grant to a process, which asked at begin: before that it has
// restored the sendings of its host, and what that has heard of each budget of
// the process.
func (s *sending) restore(p *process, begin, granted time.Time) {
	isOwn := s.host == p.host.number && s.decided.Before(begin)
	for i := range s.counts {
		k := &s.counts[i]
		hasHeard := p.limits[i] > 0 && k.memory&(1<<p.host.number) != 0
		if k.since.Equal(never) && !k.lost.After(begin) && (isOwn || hasHeard) {
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
