// This file lists, sets, sets and lifts cooldowns for an operator. Each change
// is recorded as a note in the account's log.

package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Cooldown is a cooldown for JSON, or an account that is closed because it
// moves to another ledger.
type Cooldown struct {
	Account string            `json:"account"`
	Budget  *string           `json:"budget"`         // null: the whole account
	Key     *string           `json:"key,omitempty"`  // none: all keys
	Until   time.Time         `json:"until,omitzero"` // zero for a Move, as In
	In      int64             `json:"in_s"`
	Reason  string            `json:"reason"`
	Move    *quota.MovedError `json:"move,omitempty"`
}

func newReport(c *quota.Cooldown, at time.Time) Cooldown {
	return Cooldown{Account: c.Account, Budget: human.Optional(c.Budget), Key: human.Optional(c.Key),
		Until: human.JSONTime(c.Until), In: human.SecondsUntil(at, c.Until), Reason: c.Reason}
}

// NewMove returns an account that moves, for the list of what stops calls.
func NewMove(m *quota.MovedError) Cooldown {
	return Cooldown{Account: m.Account, Reason: m.Short(), Move: m}
}

// ListCooldowns returns the cooldowns in force, those of a whole account before
// those of its budgets, and the time on the ledger's clock. A Move of an
// account comes before them. The slice is not nil.
func ListCooldowns(ctx context.Context, guard *quota.Guard, accounts []string) (at time.Time, list []Cooldown,
	err error) {
	list = []Cooldown{}
	for _, account := range accounts {
		now, held, err := guard.Cooldowns(ctx, account)
		if err != nil {
			return at, nil, err
		}
		at = now
		moved, err := guard.Moved(ctx, account)
		if err != nil {
			return at, nil, err
		}
		if moved != nil {
			list = append(list, NewMove(moved))
		}
		for i := range held {
			list = append(list, newReport(&held[i], at))
		}
	}
	return at, list, nil
}

// Cleared is the result of Clear, for JSON.
type Cleared struct {
	Lifted  bool       `json:"lifted"`
	Account string     `json:"account"`
	Budget  *string    `json:"budget"`        // null: the whole account
	Key     *string    `json:"key,omitempty"` // none: all keys
	Until   *time.Time `json:"until"`         // of the cooldown that was lifted, as Reason
	Reason  *string    `json:"reason"`
	Still   []Cooldown `json:"still"` // the cooldowns that are still in force
}

// NewCleared returns the result for a ledger without cooldowns.
func NewCleared(account, budget, key string) *Cleared {
	return &Cleared{Account: account, Budget: human.Optional(budget), Key: human.Optional(key), Still: []Cooldown{}}
}

// ClearCooldown lifts the cooldown of a budget or, if budget is empty, of the
// whole account, or that of a key alone. It also returns the time on the
// ledger's clock. A budget's cooldown that ends before that of its account is
// lifted, but not reported as Lifted. ClearCooldown returns a *MoveError for an
// account that moves to another ledger.
func ClearCooldown(ctx context.Context, guard *quota.Guard, account, budget, key string) (at time.Time, out *Cleared,
	err error) {
	if budget == "" && key == "" {
		err = checkMove(ctx, guard, account)
	}
	if err != nil {
		return at, nil, err
	}
	_, before, err := guard.Cooldowns(ctx, account)
	if err != nil {
		return at, nil, err
	}
	if err := guard.ClearKeyCooldown(ctx, account, budget, key); err != nil {
		return at, nil, err
	}
	out = NewCleared(account, budget, key)
	if c := find(before, budget, key); c != nil {
		out.Lifted = true
		out.Until, out.Reason = human.OptionalTime(c.Until), &c.Reason
		if err := record(ctx, guard, "cooldown.clear", account, budget, key); err != nil {
			return at, nil, fmt.Errorf("the cooldown is lifted, but the log does not say so: %w", err)
		}
	}
	at, all, err := ListCooldowns(ctx, guard, []string{account})
	for _, c := range all {
		isOfKey := c.Key == nil || *c.Key == key
		if isOfKey && (c.Budget == nil || budget == "") {
			out.Still = append(out.Still, c)
		}
	}
	return at, out, err
}

// UntilError is returned by Set for an end that is in the past, or for a next
// reset that costs.yaml does not define.
type UntilError struct {
	Account string
	Until   time.Time // zero for a next reset
	Now     time.Time // on the ledger's clock
}

// Error names the end and says what is wrong with it.
func (e *UntilError) Error() string {
	if e.Until.IsZero() {
		return fmt.Sprintf("reset: costs.yaml does not say when the upstream of account %s resets; add resets: to "+
			"it, or give a time", human.Name(e.Account))
	}
	return fmt.Sprintf("%s is over; it is %s", e.Until.Format(time.RFC3339), human.Time(e.Now))
}

// GoneError is returned by Set if no cooldown is in force when it has set one.
type GoneError struct {
	Account, Budget, Key string
	Lifted               bool // by another process, before the end
}

// Error says which cooldown is gone, and why.
func (e *GoneError) Error() string {
	why := "is over already; give a longer one"
	if e.Lifted {
		why = "was set, and another process has lifted it since: set it again if it must hold"
	}
	return fmt.Sprintf("%s: the cooldown %s", human.Scope(e.Account, e.Budget, e.Key), why)
}

// SetCooldown sets a cooldown. If neither its For nor its Until is set, it
// lasts until the upstream's next reset, as table defines it. Set returns the
// time on the ledger's clock and the cooldown that is in force then: that of
// the budget, else that of its account. If neither is, it returns a *GoneError,
// and for an account that moves to another ledger a *MoveError.
func SetCooldown(ctx context.Context, guard *quota.Guard, table *costs.Table, cooldown quota.Cooldown) (at time.Time,
	set *Cooldown, err error) {
	var held []quota.Cooldown
	at, _, err = guard.Cooldowns(ctx, cooldown.Account)
	if err == nil {
		err = checkMove(ctx, guard, cooldown.Account)
	}
	if err == nil && cooldown.For == 0 {
		err = resolveUntil(table, at, &cooldown)
	}
	if err != nil {
		return at, nil, err
	}
	end := cooldown.Until
	if cooldown.For > 0 {
		end = at.Add(cooldown.For)
	}
	if err := guard.Cool(ctx, cooldown); err != nil {
		return at, nil, err
	}
	if err := record(ctx, guard, "cooldown.set", cooldown.Account, cooldown.Budget, cooldown.Key); err != nil {
		if alike, ok := errors.AsType[*engine.LookAlikeError](err); ok { // no call of the account is granted
			return at, nil, cmp.Or(guard.ClearKeyCooldown(ctx, cooldown.Account, cooldown.Budget, cooldown.Key),
				error(alike))
		}
		return at, nil, err
	}
	at, held, err = guard.Cooldowns(ctx, cooldown.Account)
	if err != nil {
		return at, nil, err
	}
	budget, key := cooldown.Budget, cooldown.Key
	if c := cmp.Or(find(held, budget, key), find(held, budget, ""), find(held, "", key), find(held, "", "")); c != nil {
		return at, new(newReport(c, at)), nil
	}
	return at, nil, &GoneError{Account: cooldown.Account, Budget: budget, Key: key, Lifted: at.Before(end)}
}

// resolveUntil sets the end of a cooldown that lasts until the next reset, and
// checks that the end is in the future.
func resolveUntil(table *costs.Table, at time.Time, cooldown *quota.Cooldown) error {
	if cooldown.Until.IsZero() {
		cooldown.Until = table.NextReset(cooldown.Account, at)
	}
	if !cooldown.Until.After(at) { // a zero time is before at
		return &UntilError{Account: cooldown.Account, Until: cooldown.Until, Now: at}
	}
	return nil
}

// find returns the cooldown of a budget or, if budget is empty, of the account,
// for all keys or for one. It returns nil if there is none.
func find(cooldowns []quota.Cooldown, budget, key string) *quota.Cooldown {
	i := slices.IndexFunc(cooldowns, func(c quota.Cooldown) bool { return c.Budget == budget && c.Key == key })
	if i < 0 {
		return nil
	}
	return &cooldowns[i]
}

// record notes in the log what was done to a budget or, if budget is empty, to
// the account. The job is cooldown, or cooldown:youtube.
func record(ctx context.Context, guard *quota.Guard, action, account, budget, key string) error {
	job := "cooldown"
	if budget != "" {
		job += ":" + budget
	}
	return guard.Note(ctx, quota.Note{Call: quota.Call{Account: account, Key: key, Method: action,
		Caller: quota.Caller{Lane: quota.LaneManual, Job: human.Cut(job, quota.MaxLabel)}}})
}
