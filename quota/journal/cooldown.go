package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// SetCooldown implements quota.Ledger. The journal has the cooldown too, for
// when the ledger is down, except that of an account that arrives from another
// ledger: the host may not hear that it is over.
func (l *Ledger) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	kept := decide.StartCooldown(c, l.now().UnixMicro())
	if move, ok := kept.Move(); ok && move.Arriving {
		return l.Ledger.SetCooldown(ctx, c)
	}
	a := l.account(c.Account)
	r := record{kind: cooled, at: kept.Until.UnixMicro(), skew: a.files.hourOf(l.now()), method: c.Budget, caller: quota.Caller{Job: kept.Reason}}
	if a.files.isOwed() { // it may take the place of one that the ledger does not have
		r.calls = owedCooldown
	}
	_ = a.files.append(false, r)
	err := l.Ledger.SetCooldown(ctx, c)
	if mayLack(err) {
		r.calls = owedCooldown
		if a.files.append(true, r) == nil {
			_ = a.owe()
			return fmt.Errorf("%w; this host keeps the cooldown, and sets it once the ledger is back", err)
		}
	}
	return err
}

// owedCooldown is in the record of a cooldown that the ledger does not have, in
// the place of calls.
const owedCooldown = 1

// ClearCooldown implements quota.Ledger.
func (l *Ledger) ClearCooldown(ctx context.Context, account, budget string) error {
	if err := l.Ledger.ClearCooldown(ctx, account, budget); err != nil {
		return err
	}
	_ = l.account(account).files.append(false, record{kind: warmed, method: budget})
	return nil
}

// restoreCooldowns sets the cooldowns that the ledger lacks. If it has
// forgotten, those are all.
func (l *Ledger) restoreCooldowns(ctx context.Context, rest *others, forgotten bool) error {
	lacking := rest.owed
	if forgotten {
		lacking = rest.cooldowns
	}
	for _, c := range lacking {
		if err := l.Ledger.SetCooldown(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// coolingNote is what this process wrote last of a cooldown.
type coolingNote struct {
	until time.Time
	hour  int64 // when that was
}

// noteCooldowns writes the cooldowns that the refusals of a batch name, and the
// end of those that its grants show to be over. It writes a cooldown once an
// hour: one may last longer than the journal's files are kept.
func (l *Ledger) noteCooldowns(a *account, batch *quota.Batch, answers []quota.Answer) {
	var records []record
	a.mu.Lock()
	hour := a.files.hourOf(l.now())
	for i := range answers {
		if answers[i].Err == nil {
			records = append(records, a.warm(&batch.Requests[i], answers[i].Receipt.At)...)
			continue
		}
		refused, ok := errors.AsType[*quota.RefusedError](answers[i].Err)
		if !ok || refused.Reason != quota.ReasonCooldown {
			continue
		}
		if last := a.cooling[refused.Budget]; refused.RetryAt.Equal(last.until) && last.hour == hour {
			continue
		}
		if move, ok := refused.Move(); ok && move.Arriving {
			continue
		}
		if a.cooling == nil {
			a.cooling = map[string]coolingNote{}
		}
		a.cooling[refused.Budget] = coolingNote{refused.RetryAt, hour}
		records = append(records, record{kind: cooled, at: refused.RetryAt.UnixMicro(), skew: hour, epoch: answers[i].Receipt.Epoch, method: refused.Budget, caller: quota.Caller{Job: refused.Detail}})
	}
	a.mu.Unlock()
	if len(records) == 0 {
		return
	}
	err := a.files.append(false, records...)
	a.mu.Lock()
	a.newest.update(&records[len(records)-1])
	a.mu.Unlock()
	l.written(a, err)
}

// warm forgets the cooldowns that a grant shows to be over, and returns a
// record of each that was cleared. The caller holds a.mu.
func (a *account) warm(r *quota.Request, at time.Time) (records []record) {
	if len(a.cooling) == 0 || r.Force || r.Kind != quota.EntryCall {
		return nil
	}
	budgets := []string{""} // the account's
	for _, charge := range r.Charges {
		budgets = append(budgets, charge.Budget)
	}
	for _, budget := range budgets {
		last, known := a.cooling[budget]
		if known && at.Before(last.until) {
			records = append(records, record{kind: warmed, method: budget})
		}
		delete(a.cooling, budget)
	}
	return records
}
