package journal

import (
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// state is what the records of an account's journal add up to. It is brought up to
// date by catchUp, which reads what was appended since.
type state struct {
	read      map[int64]int64 // how far the file of each hour was read
	grants    map[quota.ID]*grant
	heard     map[string]hearing  // by budget
	cooldowns map[string]cooldown // by budget; "" is the account's
	newest    int64               // the newest timestamp of a grant
	skew      int64               // of the newest record that has one
}

// grant is a call that this host was granted.
type grant struct {
	record
	owed bool // the ledger does not have it
	down bool // it was granted within the allowance
}

type hearing struct {
	at   int64
	used quota.Units
}

type cooldown struct {
	until  int64
	reason string
}

func newState() *state {
	return &state{read: map[int64]int64{}, grants: map[quota.ID]*grant{}, heard: map[string]hearing{}, cooldowns: map[string]cooldown{}}
}

// catchUp reads what was appended to the files since the last time.
func (s *state) catchUp(f *files) error {
	hours, err := f.hours()
	if err != nil {
		return err
	}
	for _, hour := range hours {
		if s.read[hour], err = f.read(hour, s.read[hour], s.see); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) see(r *record) {
	switch r.kind {
	case granted, owed:
		s.grants[r.id] = &grant{record: *r, owed: r.kind == owed, down: r.kind == owed}
		s.newest = max(s.newest, r.at)
		if r.kind == granted {
			s.skew = r.skew
		}
		for _, u := range r.heard {
			if have := s.heard[u.budget]; r.at >= have.at {
				s.heard[u.budget] = hearing{r.at, u.used}
			}
		}
	case settled:
		if have := s.grants[r.id]; have != nil {
			have.units, have.calls = r.units, r.calls
		}
	case restored:
		for _, g := range s.grants {
			g.owed = false
		}
	case cooled:
		if have := s.cooldowns[r.method]; r.at > have.until {
			s.cooldowns[r.method] = cooldown{r.at, r.caller.Job}
		}
	case warmed:
		delete(s.cooldowns, r.method)
	}
}

// prune drops grants that are older than anything needs them.
func (s *state) prune(now int64, keep time.Duration) {
	for id, g := range s.grants {
		if g.at < now-keep.Microseconds() {
			delete(s.grants, id)
		}
	}
}

// allowed returns the units granted within the allowance in the trailing window.
// Timestamps after now, from before the clock stepped back, count.
func (s *state) allowed(now int64) (units quota.Units) {
	for _, g := range s.grants {
		if g.down && now-g.at < window.Microseconds() {
			units += g.units
		}
	}
	return units
}

// owed returns the units of the grants that the ledger does not have.
func (s *state) owed(now int64) (units quota.Units) {
	for _, g := range s.grants {
		if g.owed && now-g.at < window.Microseconds() {
			units += g.units
		}
	}
	return units
}

// entries returns the grants of one log as its entries; of a log with a key, those
// within the allowance. A call from before this host knew how far its clock was
// ahead is stamped by the skew of now, unless that is earlier.
func (s *state) entries(key string, skew int64) (entries []quota.Entry) {
	for _, g := range s.grants {
		if g.key != key || key != "" && !g.down {
			continue
		}
		at := g.at
		if g.down && g.skew == 0 {
			at = max(at, at-skew)
		}
		e := quota.Entry{At: decide.Time(at), ID: g.id, Method: g.method, Caller: g.caller, Units: g.units, Calls: g.calls}
		if g.calls == 0 {
			e.Kind = quota.EntryRefunded
		}
		entries = append(entries, e)
	}
	return entries
}

// keys returns the keys of the logs that lack grants.
func (s *state) keys() (keys []string) {
	seen := map[string]bool{"": true}
	for _, g := range s.grants {
		if g.owed && !seen[g.key] {
			seen[g.key] = true
			keys = append(keys, g.key)
		}
	}
	return keys
}
