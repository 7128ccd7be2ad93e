package engine

import (
	"context"
	"errors"
	"slices"
)

// View is the state of an account at one time. It must not be used after the
// function that got it has returned.
type View struct {
	fold *fold
	now  int64
}

// View calls look with the present state, after reading what is new, or with
// the known one if ctx is from WithKnown.
func (a *Account) View(ctx context.Context, look func(*View)) error {
	if ctx.Value(knownKey{}) == nil {
		t := newTask(true, nil)
		t.look = look
		return a.do(ctx, t)
	}
	isKnown := false
	err := a.Known(ctx, func(v *View) {
		if isKnown = v.Epoch() != 0; isKnown {
			look(v)
		}
	})
	if err == nil && !isKnown {
		err = errNothingKnown
	}
	return err
}

type knownKey struct{}

// errNothingKnown is what View returns if neither this process nor its host has
// read the log before.
var errNothingKnown = errors.New("ration: nothing is known of the ledger here")

// WithKnown returns a copy of ctx with which View does not ask the ledger.
func WithKnown(ctx context.Context) context.Context {
	return context.WithValue(ctx, knownKey{}, true)
}

// Known calls look with the state as this process, or its host, knows it. It
// does not ask the ledger.
func (a *Account) Known(ctx context.Context, look func(*View)) error {
	t := newTask(false, nil)
	t.look, t.isStale = look, true
	return a.do(ctx, t)
}

// Owe notes that the replica has records that the log may lack: what the host
// was granted while the ledger was down.
func (a *Account) Owe(ctx context.Context) error {
	t := newTask(false, nil)
	t.look = func(*View) {}
	t.isStale, t.owes = true, true
	return a.do(ctx, t)
}

// Entry returns the entry of a grant or a note, as far as is known.
func (v *View) Entry(id ID) (Entry, bool) {
	if _, ok := v.fold.find(id); !ok {
		return Entry{}, false
	}
	return v.fold.recorded(id)
}

// Now returns the time of the state, by the ledger's clock.
func (v *View) Now() int64 { return v.now }

// Epoch returns the epoch of the log; 0 if there is none.
func (v *View) Epoch() uint64 { return v.fold.known.Epoch }

// Trimmed reports whether the log, or what is known of it here, lacks its
// oldest records, which no window can see.
func (v *View) Trimmed() bool { return v.fold.isTrimmed() }

func (f *fold) isTrimmed() bool {
	isPartial := len(f.marks) > 0 && f.marks[0].position > 1
	return f.first > 1 || f.base > 1 || isPartial
}

// missingBefore returns a time before which all records are that are missing,
// if none are trimmed that are younger than a horizon; 0 if none are missing.
func (f *fold) missingBefore(horizon int64) int64 {
	if len(f.entries) == 0 || !f.isTrimmed() {
		return 0
	}
	return min(f.entries[0].at, max(f.maxStamp-horizon, f.trimmed))
}

// Ahead returns how far the newest timestamp is ahead of the clock, if that is
// more than a clock that steps back explains.
func (v *View) Ahead() int64 { return v.fold.ahead(v.now) }

// Held returns what the window of a budget holds, of one key if it is by key.
func (v *View) Held(b *Budget, key string) Held { return v.fold.held(b, key, v.now) }

// Use returns what the window of a budget holds of a key, and the limit in
// force. Unlike Held it leaves nothing behind, so that a look at all keys does
// not displace the meters of those in use.
func (v *View) Use(b *Budget, key string) (used, limit int64) {
	f := v.fold
	coverage := b.Coverage
	coverage.inFlight = b.Window.Kind == InFlight
	s := &series{coverage: &coverage, key: key}
	if key == "" || f.byKey[key] != nil {
		f.fill(s)
	}
	g := &gauge{meter: newMeter(b, b.limitOf(key), s, nil, f.missingBefore), meterID: meterID{b, key},
		own: b.limitOf(key)}
	limit, _ = f.control.limit(g, v.now)
	return g.used(v.now), limit
}

// Cooldown returns the cooldown that is in force for a budget, or for the
// account if budget is empty.
func (v *View) Cooldown(budget, key string) (held Record, ok bool) {
	c := v.fold.control.cooldown(budget, key, v.now)
	return c.Record, c.Until > 0
}

// LastCooldown returns the newest cooldown of a budget, or of the account if
// budget is empty, which may have ended. ok is false if the log has none.
func (v *View) LastCooldown(budget, key string) (last Record, ok bool) {
	c, ok := v.fold.control.cooldowns[cooldownID{budget, key}]
	return c.Record, ok
}

// Cooldowns returns all cooldowns in force, by their ends.
func (v *View) Cooldowns() []Record {
	var all []Record
	for _, c := range v.fold.control.cooldowns {
		if c.Until > v.now {
			all = append(all, c.Record)
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return sign(a.Until < b.Until) })
	return all
}

// Moved returns where the account lives now, or an empty text.
func (v *View) Moved() Record { return v.fold.control.moved.Record }

// Keys returns the keys that have entries, sorted.
func (v *View) Keys() []string { return v.fold.keys() }

// Entry is a grant or a note, with what it counts for at present.
type Entry struct {
	ID       ID
	At       int64
	Note     bool
	Name     string // of a note
	Settled  bool
	Labels   *Labels // shared; must not be modified
	Amounts  Amounts
	LeaseEnd int64 // 0 without a lease
}

// Entries yields the entries with timestamps from since on and before until, in
// the order of their timestamps or in the reverse order.
func (v *View) Entries(since, until int64, isNewestFirst bool, yield func(Entry) bool) {
	order := v.fold.order()
	from, _ := slices.BinarySearchFunc(order, since, func(n uint32, at int64) int { return sign(v.fold.at(n).at < at) })
	to, _ := slices.BinarySearchFunc(order, until, func(n uint32, at int64) int { return sign(v.fold.at(n).at < at) })
	order = order[from:max(from, to)]
	for i := range order {
		n := order[i]
		if isNewestFirst {
			n = order[len(order)-1-i]
		}
		if v.fold.at(n).isVoid {
			continue
		}
		if !yield(v.fold.entryOf(n)) {
			return
		}
	}
}

// entryOf returns an entry by its number.
func (f *fold) entryOf(n uint32) Entry {
	e := f.at(n)
	return Entry{ID: f.long(e.id), At: e.at, Note: e.kind == KindNote, Name: f.names[e.name],
		Settled: e.settledAt != 0, Labels: &f.labels[e.labels].Labels, Amounts: f.amounts(n), LeaseEnd: f.leases[n]}
}

// order returns the numbers of all entries by their times and ids.
func (f *fold) order() []uint32 {
	order := make([]uint32, len(f.entries))
	isSorted := true
	for i := range order {
		order[i] = f.base + uint32(i)
		isSorted = isSorted && (i == 0 || f.entries[i-1].at <= f.entries[i].at)
	}
	if !isSorted {
		slices.SortFunc(order, func(a, b uint32) int {
			x, y := f.at(a), f.at(b)
			if x.at != y.at {
				return sign(x.at < y.at)
			}
			return sign(f.long(x.id).before(f.long(y.id)))
		})
	}
	return order
}
