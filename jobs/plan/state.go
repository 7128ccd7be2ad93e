package plan

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// State is what a ledger holds. The zero State is an empty one.
type State struct {
	Entries   map[string][]quota.Entry // by account, oldest first, all stamped before Input.From
	Cooldowns []quota.Cooldown

	full map[string]int // how many entries Add keeps before it merges some, by account
}

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
		for e, err := range guard.Ledger().Entries(ctx, query) {
			if err != nil {
				return at, state, err
			}
			state.Add(account, &e)
		}
	}
	return at, state, nil
}

// begin sets the cooldowns, and returns the ledger's time, the longest horizon
// of the budgets and their accounts.
func (s *State) begin(ctx context.Context, guard *quota.Guard) (at time.Time, horizon time.Duration, accounts []string, err error) {
	balances, err := guard.Balances(ctx)
	for _, b := range balances {
		at = b.At.UTC()
		if b.Cooldown != nil && !slices.Contains(s.Cooldowns, *b.Cooldown) { // an account's holds each of its budgets
			s.Cooldowns = append(s.Cooldowns, *b.Cooldown)
		}
		if !slices.Contains(accounts, b.Budget.Account) {
			accounts = append(accounts, b.Budget.Account)
		}
		horizon = max(horizon, b.Budget.Window.Horizon())
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
		s.Entries = map[string][]quota.Entry{}
	}
	if s.full == nil {
		s.full = map[string]int{}
	}
	entries := append(s.Entries[account], *e)
	if len(entries) > max(maxEntries, s.full[account]) {
		span := entries[len(entries)-1].At.Sub(entries[0].At)
		for slice := max(span/maxEntries, time.Microsecond); len(entries) > maxEntries/2 && slice <= span; slice *= 2 {
			entries = merge(entries, slice)
		}
		s.full[account] = 2 * len(entries)
	}
	s.Entries[account] = entries
}

// merge merges the entries of each slice of time that have the same method,
// lane and region, in place. No budget asks for the job.
func merge(entries []quota.Entry, slice time.Duration) []quota.Entry {
	type label struct{ method, lane, region string }
	merged, began := entries[:0], 0 // began is the place in merged at which the present slice begins
	place := map[label]int{}
	var present time.Time
	byTime := func(x, y quota.Entry) int { return x.At.Compare(y.At) }
	for _, e := range entries {
		if at := e.At.Truncate(slice); !at.Equal(present) {
			slices.SortFunc(merged[began:], byTime)
			began, present = len(merged), at
			clear(place)
		}
		name := label{e.Method, e.Caller.Lane, e.Caller.Region}
		i, known := place[name]
		if !known || merged[i].Units+e.Units > quota.MaxUnits || merged[i].Calls+e.Calls > quota.MaxUnits {
			place[name] = len(merged)
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
