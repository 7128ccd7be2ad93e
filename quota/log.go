package quota

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// engineLog is the Log of a process: an engine over a ledger.
type engineLog struct {
	Ledger
	engine  *engine.Engine
	outage  *outage
	options Options
	real    bool
}

var _ Log = (*engineLog)(nil)

// NewLog returns the log of a ledger. A nil *Options is the default.
func NewLog(ledger Ledger, o *Options) Log {
	if o == nil {
		o = &Options{}
	}
	real, outage := engine.RealTime(ledger), newOutage(o)
	l := &engineLog{Ledger: ledger, real: real, outage: outage, options: *o}
	l.engine = engine.New(outage.watch(ledger), &engine.Options{
		Host: o.Host, TestClock: !real, Replica: o.Replica, Restored: o.Restored, MayCreate: l.checkLookAlike,
	})
	return l
}

// logOn returns a ledger itself if it is a Log, and one on it otherwise.
func logOn(ledger Ledger, o *Options) Log {
	if log, ok := ledger.(Log); ok {
		return log
	}
	return NewLog(ledger, o)
}

func (l *engineLog) account(name string) *engine.Account { return l.engine.Account(name) }

// RealTime reports whether the ledger is on real time.
func (l *engineLog) RealTime() bool { return l.real }

func (l *engineLog) Spend(ctx context.Context, batch *Batch) ([]Answer, error) {
	if err := batch.Check(); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(batch.Requests))
	var requests []*engine.Request
	var places []int
	for i := range batch.Requests {
		r := &batch.Requests[i]
		if err := r.Check(batch.Account, batch.Key); err != nil {
			answers[i].Err = err
			continue
		}
		requests = append(requests, l.request(batch, r, i))
		places = append(places, i)
	}
	if len(requests) == 0 {
		return answers, nil
	}
	if down := l.outage.isDown(); down != nil {
		return l.fallBack(ctx, batch, down)
	}
	decided, err := l.engine.Account(batch.Account).Spend(ctx, requests...)
	if l.outage != nil && errors.Is(err, ErrLedgerDown) {
		l.outage.failed(err)
		return l.fallBack(ctx, batch, err)
	}
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		r := &batch.Requests[place]
		if err := checkReuse(batch, r, decided[i]); err != nil {
			return nil, err
		}
		answers[place] = l.answer(batch, r, decided[i])
	}
	return answers, nil
}

// checkLookAlike refuses an account whose name looks like that of one which has
// a log.
func (l *engineLog) checkLookAlike(ctx context.Context, account string) error {
	for known, err := range l.Ledger.Accounts(ctx) {
		if err != nil {
			return err
		}
		if alike := (&LookAlikeError{account, known}); alike.IsAlike() {
			return alike
		}
	}
	return nil
}

// request returns a request as the engine sees it.
func (l *engineLog) request(batch *Batch, r *Request, i int) *engine.Request {
	e := &engine.Request{
		Labels: engine.Labels{Method: r.Method, Key: batch.Key, Host: l.options.Host,
			Lane: r.Caller.Lane, Job: r.Caller.Job, Region: r.Caller.Region},
		Amounts: r.Amounts().engineAmounts(), Lease: r.lease().Microseconds(),
		Budgets: engineBudgets(r.Charges), Force: r.Force, Once: batch.Once && i == 0, Count: r.Together,
		History: batch.History.Microseconds(),
	}
	if r.Kind.isAdjustment() {
		e.Kind = engine.KindNote
		if r.Kind == EntryCorrection {
			e.Name = correctionName
		}
	}
	if r.place != nil {
		e.Wait, e.Ticket = r.place.left.Microseconds(), r.place.ticket
	}
	if l.options.Priority != nil {
		e.Priority = int64(l.options.Priority(batch.Account, r.Caller.Lane))
	}
	if batch.Client != 0 {
		e.ID = engine.ID{Client: batch.Client, Seq: batch.Seq + uint64(i)}
		e.History = max(e.History, idHistory.Microseconds())
	}
	return e
}

// lease returns how long a call counts as in flight at most: a note never does.
func (r *Request) lease() time.Duration {
	if r.Kind.isAdjustment() {
		return 0
	}
	lease := r.Lease
	for _, charge := range r.Charges {
		lease = max(lease, charge.Window.Lease())
	}
	return lease
}

// idHistory is how long the log keeps an entry at least whose request can be
// repeated.
const idHistory = 10 * time.Minute

// correctionName names the notes that are corrections.
const correctionName = "correction"

// checkReuse returns an ErrReused if the request's id is that of another call.
func checkReuse(batch *Batch, r *Request, a *engine.Answer) error {
	if a.Reused {
		return ErrReused
	}
	for _, e := range a.Repeated {
		l := e.Labels
		isSame := l.Method == r.Method && l.Key == batch.Key && callerOf(l) == r.Caller
		if !isSame && *l != (engine.Labels{}) {
			return fmt.Errorf("%w (it was %s)", ErrReused, l.Method)
		}
	}
	return nil
}

// callerOf returns the caller that labels name.
func callerOf(l *engine.Labels) Caller { return Caller{Lane: l.Lane, Job: l.Job, Region: l.Region} }

// answer returns an answer of the engine as callers see it.
func (l *engineLog) answer(batch *Batch, r *Request, a *engine.Answer) Answer {
	receipt := Receipt{Account: batch.Account, Key: batch.Key, Epoch: a.Epoch, At: ledgerTime(a.At)}
	if r.place != nil {
		r.place.ticket = a.Ticket
	}
	if a.Refusal != nil {
		return Answer{Receipt: Receipt{Account: batch.Account, Key: batch.Key, Epoch: a.Epoch},
			Err: l.refusal(batch, r, a)}
	}
	answer := Answer{Receipt: receipt, Held: a.Held}
	if len(a.IDs) > 0 {
		answer.Receipt.ID = ID(a.IDs[0])
		for _, id := range a.IDs[1:] {
			answer.Others = append(answer.Others, ID(id))
		}
	}
	for _, e := range a.Repeated {
		answer.Repeated = append(answer.Repeated, entryOf(e))
	}
	return answer
}

// refusal returns the error of a refused request.
func (l *engineLog) refusal(batch *Batch, r *Request, a *engine.Answer) error {
	no := a.Refusal
	if no.Moved != nil {
		refused := l.movedRefusal(batch, r, a)
		return refused.move.orError(refused)
	}
	refused := &RefusedError{
		Account: batch.Account, Key: batch.Key, Method: r.Method,
		Units: r.Units, Caller: r.Caller, Reason: ReasonSpent,
		Needed: Units(no.Needed), Ahead: micros(no.Ahead),
		RetryAt: ledgerTime(no.RetryAt), RetryAfter: ledgerTime(no.RetryAt).Sub(ledgerTime(a.At)),
	}
	if no.Budget != nil {
		i := slices.IndexFunc(r.Charges, func(c *Charge) bool { return c.Budget == no.Budget.Name })
		charge := r.Charges[i]
		refused.Budget, refused.Measure = charge.Budget, charge.Coverage.Measure
		refused.OfKey = charge.keyOf(batch.Key) != ""
		refused.Limit = Units(no.Held.Limit)
		refused.Used = Units(no.Held.Used)
		refused.Kept = Units(no.Held.Reserved)
		refused.Open, refused.Waiting = Units(no.Held.Open), Units(no.Waiting)
		refused.Remaining = max(0, refused.Limit-refused.Used-refused.Kept-refused.Waiting)
		if no.Held.Until != 0 {
			refused.ConfiguredLimit, refused.LimitUntil = charge.limitOf(batch.Key), ledgerTime(no.Held.Until)
		}
	}
	if no.Never {
		return &NeverFitsError{Account: batch.Account, Key: refused.ownKey(), Budget: refused.Budget, Method: r.Method,
			Measure: refused.Measure,
			Limit:   refused.Limit, Kept: refused.Kept, Needed: refused.Needed, Calls: r.Together,
			ConfiguredLimit: refused.ConfiguredLimit, LimitUntil: refused.LimitUntil}
	}
	if no.InFlight {
		refused.Reason = ReasonInFlight
	}
	if no.Cooldown != nil {
		refused.Reason = ReasonCooldown
		refused.Detail = no.Cooldown.Text
		refused.Budget = no.Cooldown.Name
		refused.OfKey = no.Cooldown.Labels.Key != ""
	}
	return refused
}

// movedRefusal returns the refusal of a request whose account has moved.
func (l *engineLog) movedRefusal(batch *Batch, r *Request, a *engine.Answer) *RefusedError {
	call := Call{Account: batch.Account, Key: batch.Key, Method: r.Method, Units: r.Units, Caller: r.Caller}
	return moveOf(batch.Account, a.Refusal.Moved).refusal(&call, ledgerTime(a.At))
}

func (l *engineLog) Settle(ctx context.Context, receipt Receipt, amounts Amounts) error {
	if err := amounts.check(); err != nil {
		return err
	}
	to := amounts.engineAmounts()
	err := l.engine.Account(receipt.Account).Adjust(ctx, engine.ID(receipt.ID), to)
	return l.orSettleDown(err, receipt, func(before engine.Amounts) engine.Amounts { return to.Or(before) })
}

func (l *engineLog) Refund(ctx context.Context, receipt Receipt) error {
	err := l.engine.Account(receipt.Account).Settle(ctx, engine.ID(receipt.ID), engine.Amounts{})
	return l.orSettleDown(err, receipt, func(engine.Amounts) engine.Amounts { return engine.Amounts{} })
}

// orSettleDown settles an entry in the replica to what change returns, if err
// says that the ledger is down and the entry is one of that outage. Otherwise
// it returns err.
func (l *engineLog) orSettleDown(err error, receipt Receipt, change func(before engine.Amounts) engine.Amounts) error {
	if l.outage != nil && errors.Is(err, ErrLedgerDown) {
		return l.settleDown(receipt, change, err)
	}
	return err
}

// end ends the lease of a grant. While the ledger is down, it does so for those
// of the outage; others end by themselves.
func (l *engineLog) end(ctx context.Context, receipt Receipt) error {
	err := l.outage.isDown()
	if err == nil {
		err = l.engine.Account(receipt.Account).End(ctx, engine.ID(receipt.ID))
	}
	return l.orSettleDown(err, receipt, func(before engine.Amounts) engine.Amounts { return before })
}

func (l *engineLog) WindowUsages(ctx context.Context, account, key string, charges []*Charge) ([]WindowUsage, error) {
	budgets := engineBudgets(charges)
	standings := make([]WindowUsage, len(charges))
	err := l.engine.Account(account).View(ctx, func(v *engine.View) {
		record := v.Moved()
		moved := moveOf(account, &record)
		for i, b := range budgets {
			standings[i] = standingOf(v, b, key, charges[i])
			standings[i].Moved = moved
			if cooldown := cooldownIn(v, account, charges[i].Budget, key); cooldown != nil {
				standings[i].Cooldown = cooldown
			}
		}
	})
	return standings, err
}

func standingOf(v *engine.View, b *engine.Budget, key string, charge *Charge) WindowUsage {
	held := v.Held(b, key)
	now := ledgerTime(v.Now())
	s := WindowUsage{At: now, Since: charge.Window.Since(now, charge.limitOf(key)), Used: Units(held.Used),
		Open: Units(held.Open), Ahead: micros(v.Ahead()),
		Trimmed: v.Trimmed()}
	if held.NextAt != 0 {
		s.NextFree = ledgerTime(held.NextAt)
	}
	if held.Until != 0 {
		s.Limit, s.LimitUntil = Units(held.Limit), ledgerTime(held.Until)
	}
	return s
}

// cooldownIn returns the cooldown in force for a budget: its own, or that of
// the account if that ends later.
func cooldownIn(v *engine.View, account, budget, key string) *Cooldown {
	own, isOwn := v.Cooldown(budget, key)
	all, isAll := v.Cooldown("", key)
	switch {
	case isAll && (!isOwn || all.Until > own.Until):
		return cooldownOf(account, all)
	case isOwn:
		return cooldownOf(account, own)
	}
	return nil
}

func cooldownOf(account string, r engine.Record) *Cooldown {
	return &Cooldown{Account: account, Budget: r.Name, Key: r.Labels.Key, Until: ledgerTime(r.Until), Reason: r.Text}
}

func (l *engineLog) SetCooldown(ctx context.Context, c Cooldown) error {
	reason := c.Reason
	if len(reason) > MaxReason {
		reason = cutText(reason, MaxReason)
	}
	length := min(c.For, math.MaxInt64-time.Microsecond) + time.Microsecond - time.Nanosecond
	until := int64(human.MaxUnix * 1_000_000)
	if c.Until.Unix() < human.MaxUnix {
		until = microsOf(c.Until)
	}
	if err := CheckKey(c.Key); err != nil {
		return err
	}
	return l.engine.Account(c.Account).Cool(ctx, c.Budget, c.Key, length.Microseconds(), until, c.repeats, reason)
}

func cutText(text string, most int) string {
	for most > 0 && text[most]&0xc0 == 0x80 {
		most--
	}
	return text[:most]
}
