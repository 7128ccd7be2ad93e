package plan

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// State is what a ledger holds. The zero State is an empty one.
type State struct {
	Entries   map[string][]HeldEntry // by account, oldest first, all stamped before Input.From; see Add
	Cooldowns []quota.Cooldown
	Moves     []quota.MovedError // of accounts whose calls are refused, since they move to another ledger

	labels map[label]*label
	full   map[string]int // how many entries Add keeps before it merges some, by account
}

// HeldEntry is what budgets ask of a quota.Entry. A long log has tens of
// thousands, so those with the same label share it.
type HeldEntry struct {
	*label
	At           time.Time
	Units, Calls quota.Units
	Kind         quota.EntryKind
}

type label struct {
	Method string
	Caller quota.Caller // without its job, which no budget asks for
	Key    string       // ofKeys or, of a call without a key, ""
}

// ofKeys is the key of all calls with one: those of a schedule have none.
const ofKeys = "keys"

// ReadState returns what the ledger of guard holds before from that its budgets
// still count at from, and the ledger's time; a zero from is the ledger's time.
// Without budgets both are zero.
func ReadState(ctx context.Context, guard *quota.Guard, from time.Time) (at time.Time, state State, err error) {
	at, horizon, accounts, err := state.begin(ctx, guard)
	if err != nil {
		return at, state, err
	}
	if from.IsZero() {
		from = at
	}
	for _, account := range accounts {
		query := quota.Query{Account: account, Since: from.Add(-horizon), Until: from}
		for e, err := range guard.Entries(ctx, query) {
			if err != nil {
				return at, state, err
			}
			state.Add(account, &e)
		}
	}
	return at, state, nil
}

// begin sets the cooldowns and the moves, and returns the ledger's time, the
// longest horizon of the budgets and their accounts.
func (s *State) begin(ctx context.Context, guard *quota.Guard) (at time.Time, horizon time.Duration, accounts []string,
	err error) {
	balances, err := guard.Balances(ctx)
	for _, b := range balances {
		at = b.At.UTC()
		if b.Cooldown != nil && !slices.Contains(s.Cooldowns, *b.Cooldown) { // an account's holds each of its budgets
			s.Cooldowns = append(s.Cooldowns, *b.Cooldown)
		}
		if b.Moved != nil && !slices.Contains(s.Moves, *b.Moved) {
			s.Moves = append(s.Moves, *b.Moved)
		}
		if !slices.Contains(accounts, b.Budget.Account) {
			accounts = append(accounts, b.Budget.Account)
		}
		horizon = max(horizon, b.Budget.Horizon())
	}
	return at, horizon, accounts, err
}

// maxEntries is the most entries of an account that Add keeps, unless there are
// half as many methods and callers.
const maxEntries = 40_000

// Add adds an entry of an account; they come oldest first. It keeps at most
// 40,000 entries of an account. Of a longer log, the calls of one method, lane
// and region within a slice of time become one entry with the stamp of the
// last, so that windows free them late by less than a slice, and never early.
// The slice is as short as the log and the number of callers allow: about a
// minute for a million calls a day of 20 kinds.
func (s *State) Add(account string, e *quota.Entry) {
	if s.Entries == nil {
		s.Entries = map[string][]HeldEntry{}
		s.labels = map[label]*label{}
		s.full = map[string]int{}
	}
	name := label{Method: e.Method, Caller: quota.Caller{Lane: e.Caller.Lane, Region: e.Caller.Region}}
	if e.Key != "" {
		name.Key = ofKeys
	}
	shared := s.labels[name]
	if shared == nil {
		shared = new(name)
		s.labels[name] = shared
	}
	entries := append(s.Entries[account], HeldEntry{shared, e.At, e.Units, e.Calls, e.Kind})
	if len(entries) > max(maxEntries, s.full[account]) {
		span := entries[len(entries)-1].At.Sub(entries[0].At)
		for slice := max(span/maxEntries, time.Microsecond); len(entries) > maxEntries/2 && slice <= span; slice *= 2 {
			entries = merge(entries, slice)
		}
		s.full[account] = 2 * len(entries)
	}
	s.Entries[account] = entries
}

// merge merges the entries of each slice of time that have the same label, in
// place.
func merge(entries []HeldEntry, slice time.Duration) []HeldEntry {
	merged, began := entries[:0], 0 // began is the place in merged at which the present slice begins
	place := map[*label]int{}
	var present time.Time
	byTime := func(x, y HeldEntry) int { return x.At.Compare(y.At) }
	for _, e := range entries {
		if at := e.At.Truncate(slice); !at.Equal(present) {
			slices.SortFunc(merged[began:], byTime)
			began, present = len(merged), at
			clear(place)
		}
		i, known := place[e.label]
		if !known || merged[i].Units+e.Units > quota.MaxUnits || merged[i].Calls+e.Calls > quota.MaxUnits {
			place[e.label] = len(merged)
			merged = append(merged, e)
			continue
		}
		into := &merged[i]
		into.Kind = quota.EntryNote
		into.At = e.At
		into.Units += e.Units
		into.Calls += e.Calls
	}
	slices.SortFunc(merged[began:], byTime)
	return merged
}
