package journal

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/privatefile"
)

// state is what the records of an account's journal add up to. It is brought up
// to date by catchUp, which reads what was appended since.
type state struct {
	read      map[int64]int64 // how far the file of each hour was read
	keep      time.Duration   // how long prune keeps records
	grants    map[quota.ID]*grant
	doubts    map[quota.ID]record   // calls that may have been granted
	early     map[quota.ID]record   // settled records of calls that are in the file of a later hour: the host's clock was ahead
	dates     map[quota.ID]record   // of calls within the allowance
	heard     map[subject]hearing   // what the newest grants and refusals said
	cooldowns map[string]cooldown   // by budget; "" is the account's
	givenUp   map[quota.ID][]uint64 // grants: in which lives of the log the loss of them was accepted
	gaps      []quota.Gap           // what restorations have returned
	visits    []visit               // the first refusals in lives of the log
	present   uint64                // the life of the newest answer; 0 within the allowance
	granted   map[uint64]int        // how many grants of the ledger were read, by epoch
	life      uint64                // the epoch of the last restoration; 0 for none

	restorations int
	raised       int   // how many records have raised what a call costs
	newest       int64 // the newest timestamp of a grant
	skew         int64 // of the newest grant that has one; an outage can outlast the last answer's record
}

// grant is a call that this host was granted.
type grant struct {
	record
	owed     bool  // the ledger does not have it
	down     bool  // it was granted within the allowance
	dated    bool  // and has the timestamp with which it was restored
	first    int64 // that of its receipt, if it is dated
	back     int64 // the newest timestamp of the log when it was restored there
	repeated bool  // an earlier request had the same id, and was granted it
}

// isUnheard reports whether a hearing does not count a call: it was granted
// within the allowance, or later to a process that has other budgets.
func (g *grant) isUnheard(h *hearing) bool {
	cameBackLater := g.down && h.at <= g.back
	return g.owed || g.at > h.at || cameBackLater
}

// counted returns when the ledger began to count a call: what was granted
// within the allowance, when it was restored. That can be after others were
// granted.
func (g *grant) counted() int64 {
	if g.owed {
		return math.MaxInt64
	}
	return max(g.at, g.back)
}

// stamp returns when a call was granted on the ledger's clock. A call from
// before this host knew how far its clock was ahead is stamped by a later skew,
// unless that is earlier.
func (g *grant) stamp(skew int64) int64 {
	if g.down && g.skew == 0 && !g.dated {
		return max(g.at, g.at-skew)
	}
	return g.at
}

// visit is a refusal in a life of the log in which the answer before it was
// not given. It holds what the host was granted earlier, since the host
// restores that before it is answered there.
type visit struct {
	epoch uint64
	at    int64
	hour  int64 // as in a record
}

// subject is what a hearing is about: a budget in one life of the log.
type subject struct {
	budget string // see heardName
	epoch  uint64
}

type hearing struct {
	at      int64
	hour    int64 // as in a record
	used    quota.Units
	limit   quota.Units // that held, if it was said; else 0
	settled []change    // since, of earlier calls
}

// change is by how much the amounts of a call were changed.
type change struct {
	of           *record
	units, calls quota.Units
}

// usedBy returns how much of a budget was used, as if what this host has
// settled since had been settled then. held reports whether the log held a
// grant of this host at that time.
func (h *hearing) usedBy(charge *quota.Charge, held func(*record) bool) quota.Units {
	used, since := h.used, decide.Since(&charge.Window, h.at)
	for _, c := range h.settled {
		if c.of.at >= since && charge.Coverage.Covers(c.of.method, c.of.caller) && held(c.of) {
			used += charge.Coverage.Measure.Of(c.units, c.calls)
		}
	}
	return max(0, used)
}

type cooldown struct {
	until  int64
	reason string
	owed   bool  // the ledger does not have it
	hour   int64 // when this host heard of it, by its clock
}

// isMove reports whether a cooldown closes an account that has moved to
// another ledger.
func (c *cooldown) isMove() bool { return c.until >= quota.MoveUntil*1e6 }

func newState() *state {
	return &state{read: map[int64]int64{}, grants: map[quota.ID]*grant{}, doubts: map[quota.ID]record{}, early: map[quota.ID]record{}, dates: map[quota.ID]record{}, heard: map[subject]hearing{}, cooldowns: map[string]cooldown{}, givenUp: map[quota.ID][]uint64{}, granted: map[uint64]int{}}
}

// catchUp reads what was appended to the files since the last time.
func (s *state) catchUp(f *files) error {
	return f.eachHour(func(reader *privatefile.Reader, hour int64) error {
		from := s.read[hour]
		if from > 0 && f.bytesOf(hour) == from {
			return nil
		}
		data, _, err := readFrom(reader, f.path(hour), from)
		if err != nil {
			return err
		}
		n, err := each(data, func(r *record) { r.hour = hour; s.apply(r) })
		s.read[hour] = from + int64(n)
		return err
	})
}

func (s *state) apply(r *record) {
	if r.kind == granted {
		s.granted[r.epoch]++
	}
	switch r.kind {
	case doubted:
		if have := s.grants[r.id]; have == nil || have.calls == 0 {
			s.doubts[r.id] = s.afterHeard(*r)
		}
	case granted, owed:
		s.applyGrant(r)
	case dated:
		s.dates[r.id] = *r
		s.applyDate(r.id)
	case refused:
		if r.epoch != s.present {
			s.visits = append(s.visits, visit{r.epoch, r.at, r.hour})
		}
		s.present = r.epoch
		s.applyHeard(r)
	case settled:
		s.applySettled(r)
	case restored:
		s.life = r.epoch
		s.restorations++
		for _, g := range s.grants {
			if g.owed {
				g.owed, g.back = false, r.at+int64(r.calls)
			}
		}
		for budget, c := range s.cooldowns {
			c.owed = false
			s.cooldowns[budget] = c
		}
	case givenUp:
		s.givenUp[r.id] = append(s.givenUp[r.id], r.epoch)
	case lacked:
		s.gaps = append(s.gaps, r.gap())
	case cooled:
		isOwed := r.calls == owedCooldown
		have, hour := s.cooldowns[r.method], cmp.Or(r.skew, r.hour)
		if r.at == have.until { // heard again, perhaps after the clock was corrected
			have.hour = min(have.hour, hour)
			s.cooldowns[r.method] = have
			hour = have.hour
		}
		if r.at > have.until || r.at == have.until && isOwed {
			s.cooldowns[r.method] = cooldown{r.at, r.caller.Job, isOwed, hour}
		}
	case warmed:
		delete(s.cooldowns, r.method)
	case stamped:
		s.restamp(r)
	}
}

func (s *state) applyGrant(r *record) {
	delete(s.doubts, r.id)
	switch have := s.grants[r.id]; {
	case have != nil && have.at == r.at && r.kind == granted: // it may have been settled since
		have.repeated = true
	default:
		s.grants[r.id] = &grant{record: *r, owed: r.kind == owed, down: r.kind == owed, repeated: have != nil && have.calls > 0}
		if have != nil { // the date was that of the earlier call
			delete(s.dates, r.id)
		}
	}
	s.applyPresent(r)
	s.newest = max(s.newest, r.at)
	if r.kind == granted || r.skew != 0 {
		s.skew = r.skew
	}
	s.applyHeard(r)
	s.applyEarly(r)
	s.applyDate(r.id)
}

// applyPresent keeps which life of the log a grant is of, and that the account
// has not moved, or has been opened again.
func (s *state) applyPresent(r *record) {
	if r.key == "" {
		s.present = r.epoch
	}
	account, isCall := s.cooldowns[""], r.kind == granted && r.entry == quota.EntryCall
	if isCall && account.isMove() {
		delete(s.cooldowns, "")
	}
}

func (s *state) applySettled(r *record) {
	early, isEarly := s.early[r.id]
	isLater := isEarly && early.at == r.at && early.units > r.units // perhaps; the order is not known
	switch have := s.grants[r.id]; {
	case have == nil:
		s.early[r.id] = *r
	case !isLater:
		s.settle(have, r)
	}
}

// applyEarly settles a grant if that was read before it.
func (s *state) applyEarly(r *record) {
	if to, ok := s.early[r.id]; ok && to.at == r.at {
		s.settle(s.grants[r.id], &to)
	}
}

// afterHeard returns a call in doubt, stamped no earlier than what was heard
// before its answer was lost. Its own timestamp is by the host's clock, which
// may be behind.
func (s *state) afterHeard(r record) record {
	for _, h := range s.heard {
		r.at = max(r.at, h.at)
	}
	return r
}

// applyHeard keeps what the newest answer said of each budget. That can be more
// than a limit: by what was spent at a higher one, and by what two lives of the
// log have granted, once it is restored from both.
func (s *state) applyHeard(r *record) {
	if r.kind == owed {
		return
	}
	for _, u := range r.heard {
		of := subject{u.budget, r.epoch}
		if r.at < s.heard[of].at {
			continue
		}
		h := hearing{at: r.at, hour: r.hour, used: u.used}
		if r.kind == refused {
			h.limit = r.units
		}
		s.heard[of] = h
	}
}

// settle changes what a grant costs.
func (s *state) settle(g *grant, to *record) {
	c := change{&g.record, to.units - g.units, to.calls - g.calls}
	g.units, g.calls = to.units, to.calls
	if c.units > 0 || c.calls > 0 {
		s.raised++
	}
	wasHeard := g.key == "" && !g.owed // what is owed was never heard
	isChange := c.units != 0 || c.calls != 0
	if !wasHeard || !isChange {
		return
	}
	for of, h := range s.heard {
		if h.at >= g.at {
			h.settled = append(h.settled, c)
			s.heard[of] = h
		}
	}
}

// hasOtherBatch reports whether the client of a batch was granted another one
// for as long as ledgers remember the last one.
func (s *state) hasOtherBatch(batch *quota.Batch, now int64) bool {
	for id, g := range s.grants {
		isOther := id.Seq < batch.Seq || id.Seq >= batch.Seq+uint64(len(batch.Requests))
		if id.Client == batch.Client && isOther && g.at > now-decide.ClientMemory {
			return true
		}
	}
	return false
}

// prune drops grants that are older than anything needs them.
func (s *state) prune(now int64) {
	oldest := now - s.keep.Microseconds()
	for id, g := range s.grants {
		if g.at < oldest {
			delete(s.grants, id)
		}
	}
	maps.DeleteFunc(s.givenUp, func(id quota.ID, _ []uint64) bool { return id.Seq != 0 && s.grants[id] == nil })
	for _, records := range []map[quota.ID]record{s.doubts, s.early, s.dates} {
		maps.DeleteFunc(records, func(_ quota.ID, r record) bool { return r.at < oldest })
	}
	for of, h := range s.heard {
		if h.at < oldest {
			delete(s.heard, of)
		}
	}
	s.visits = slices.DeleteFunc(s.visits, func(v visit) bool { return v.at < oldest })
	s.gaps = slices.DeleteFunc(s.gaps, func(g quota.Gap) bool { return g.To.UnixMicro() < oldest })
}

// earliest returns the earliest time that the ledger's clock can show when now
// is computed from the skew. Of a slow answer, that is too low.
func (s *state) earliest(now int64) int64 { return min(now, now+s.skew) }

// cooldownsToSet returns the cooldowns that the ledger does not have, and those
// to set if it has forgotten: all that hold, except those that a clock ahead
// has set. Among them is that of an account which has moved.
func (s *state) cooldownsToSet(account string, now int64) (owed, forgotten []quota.Cooldown) {
	for budget, c := range s.cooldowns {
		if c.until <= s.earliest(now) {
			continue
		}
		set := quota.Cooldown{Account: account, Budget: budget, Until: decide.Time(c.until), Reason: c.reason}
		wasAhead := c.hour > now/segment.Microseconds()+1
		if c.owed {
			owed = append(owed, set)
		}
		if c.owed || !wasAhead {
			forgotten = append(forgotten, set)
		}
	}
	return owed, forgotten
}

// entries returns the grants of one log as its entries; of a log with a key,
// those within the allowance. dates are those of what the ledger lacks.
func (s *state) entries(key string, skew int64, dates map[quota.ID]int64) (entries []quota.Entry) {
	for _, g := range s.grants {
		if g.key != key || key != "" && !g.down {
			continue
		}
		at, isOwed := dates[g.id]
		if !isOwed {
			at = g.stamp(skew)
		}
		e := quota.Entry{At: decide.Time(at), ID: g.id, Kind: g.entry, Method: g.method, Caller: g.caller, Units: g.units, Calls: g.calls}
		if g.calls == 0 && g.entry == quota.EntryCall {
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
