// Package memledger keeps a quota.Ledger in the memory of one process: for
// tests, and for a program whose calls all come from one process and whose
// budgets need not outlive it.
package memledger

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Options are for Open; nil is the default.
type Options struct {
	// Now is a clock for tests; nil is time.Now.
	Now func() time.Time
}

// Ledger is a quota.Ledger in memory. It is safe for concurrent use. Its only
// errors are of the context and of bad calls.
type Ledger struct {
	now func() time.Time

	mu      sync.Mutex
	client  uint64 // names the requests of batches that come without an id
	seq     uint64
	logs    map[logName]*log
	days    map[quota.Window]decide.Day
	sweepAt int // look for idle keyed logs when there are so many
}

type logName struct{ account, key string }

// Open returns an empty ledger.
func Open(o *Options) *Ledger {
	l := &Ledger{now: time.Now, client: quota.NewClient(), seq: 1, logs: map[logName]*log{}, days: map[quota.Window]decide.Day{}, sweepAt: 1024}
	if o != nil && o.Now != nil {
		l.now = o.Now
	}
	return l
}

// Spend implements quota.Ledger.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := batch.Check(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UnixMicro()
	g := l.log(batch.Account, batch.Key, now)
	client, seq := batch.Client, batch.Seq
	if client == 0 {
		client, seq = l.client, l.seq
		l.seq += uint64(len(batch.Requests))
	}
	answers := make([]quota.Answer, len(batch.Requests))
	before := g.remembered(batch)
	for i := range batch.Requests {
		id := quota.ID{Client: client, Seq: seq + uint64(i)}
		if stamp, ok := before[id.Seq]; ok {
			answers[i].Receipt = g.receipt(id, stamp)
			continue
		}
		stamp, err := l.decide(g, &batch.Requests[i], now, id)
		if err != nil {
			answers[i].Err = err
			continue
		}
		answers[i].Receipt = g.receipt(id, stamp)
		if batch.Client != 0 {
			g.remember(batch, id.Seq, stamp)
		}
	}
	return answers, nil
}

// decide admits one request and returns its stamp, or returns why not.
func (l *Ledger) decide(g *log, r *quota.Request, now int64, id quota.ID) (int64, error) {
	if err := r.Check(g.name.account); err != nil {
		return 0, err
	}
	var refused *quota.RefusedError
	for _, charge := range r.Charges {
		list := g.list(charge, now)
		if r.Force {
			continue
		}
		amount := charge.Coverage.Amount(r.Units)
		used, retryAt := l.question(charge, now).ask(list, int64(amount))
		if retryAt > 0 && (refused == nil || retryAt > refused.RetryAt.UnixMicro()) {
			refused = &quota.RefusedError{Account: g.name.account, Key: g.name.key, Budget: charge.Budget, Method: r.Method,
				Reason: quota.ReasonSpent, Measure: charge.Coverage.Measure, Limit: charge.Limit,
				Remaining: max(0, charge.Limit-quota.Units(used)), Needed: amount, RetryAt: time.UnixMicro(retryAt).UTC()}
		}
		if c := g.cooldown(charge.Budget, now); c != nil && (refused == nil || c.Until.After(refused.RetryAt)) {
			refused = cooled(c, g, charge, r, max(0, charge.Limit-quota.Units(used)))
		}
	}
	if c := g.cooldown("", now); c != nil && !r.Force && (refused == nil || c.Until.After(refused.RetryAt)) {
		refused = cooled(c, g, nil, r, 0)
	}
	if refused != nil {
		refused.RetryAfter = refused.RetryAt.Sub(time.UnixMicro(now))
		return 0, refused
	}
	return g.record(r, now, id), nil
}

// cooled is the refusal of a request that a cooldown holds.
func cooled(c *quota.Cooldown, g *log, charge *quota.Charge, r *quota.Request, remaining quota.Units) *quota.RefusedError {
	refused := &quota.RefusedError{Account: g.name.account, Key: g.name.key, Budget: c.Budget, Method: r.Method,
		Reason: quota.ReasonCooldown, Detail: c.Reason, Needed: r.Units, RetryAt: c.Until}
	if charge != nil {
		refused.Measure, refused.Limit, refused.Remaining = charge.Coverage.Measure, charge.Limit, remaining
		refused.Needed = charge.Coverage.Amount(r.Units)
	}
	return refused
}

// Settle implements quota.Ledger.
func (l *Ledger) Settle(_ context.Context, receipt quota.Receipt, units quota.Units) error {
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units", quota.ErrBadCall, units)
	}
	return l.correct(receipt, units, 1)
}

// Refund implements quota.Ledger.
func (l *Ledger) Refund(_ context.Context, receipt quota.Receipt) error {
	return l.correct(receipt, 0, 0)
}

func (l *Ledger) correct(receipt quota.Receipt, units, calls quota.Units) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.logs[logName{receipt.Account, receipt.Key}]
	if g == nil {
		return nil
	}
	return g.correct(receipt, units, calls, l.now().UnixMicro())
}

// Standings implements quota.Ledger.
func (l *Ledger) Standings(_ context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UnixMicro()
	g := l.logs[logName{account, key}]
	if g == nil {
		g = newLog(logName{account, key})
	}
	standings := make([]quota.Standing, len(charges))
	for i, charge := range charges {
		list := g.list(charge, now)
		used, since, free := l.question(charge, now).stand(list)
		s := quota.Standing{At: time.UnixMicro(now).UTC(), Used: quota.Units(used)}
		if since != 0 {
			s.Since = time.UnixMicro(since).UTC()
		}
		if free != 0 {
			s.NextFree = time.UnixMicro(free).UTC()
		}
		for _, name := range []string{charge.Budget, ""} {
			if c := g.cooldown(name, now); c != nil && (s.Cooldown == nil || c.Until.After(s.Cooldown.Until)) {
				s.Cooldown = new(*c)
			}
		}
		standings[i] = s
	}
	return standings, nil
}

// pageSize is how many entries are copied while others wait.
const pageSize = 500

// Entries implements quota.Ledger.
func (l *Ledger) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		from := int64(0)
		if !query.Since.IsZero() {
			from = query.Since.UnixMicro()
		}
		for {
			if err := ctx.Err(); err != nil {
				yield(quota.Entry{}, err)
				return
			}
			page := l.page(query, from)
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			from = page[len(page)-1].At.UnixMicro() + 1
		}
	}
}

func (l *Ledger) page(query quota.Query, from int64) []quota.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.logs[logName{query.Account, query.Key}]
	if g == nil {
		return nil
	}
	return g.page(from, query.Until)
}

// SetCooldown implements quota.Ledger.
func (l *Ledger) SetCooldown(_ context.Context, c quota.Cooldown) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.log(c.Account, "", l.now().UnixMicro())
	if have, ok := g.cooldowns[c.Budget]; ok && !c.Until.After(have.Until) {
		return nil
	}
	c.Until = c.Until.UTC()
	g.cooldowns[c.Budget] = c
	return nil
}

// ClearCooldown implements quota.Ledger.
func (l *Ledger) ClearCooldown(_ context.Context, account, budget string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.logs[logName{account, ""}]; g != nil {
		delete(g.cooldowns, budget)
	}
	return nil
}

// Close implements quota.Ledger. The ledger stays usable.
func (l *Ledger) Close() error { return nil }

// log returns the log of an account and key, made when it is not there. Logs
// with a key go when they have been idle for twice their horizon.
func (l *Ledger) log(account, key string, now int64) *log {
	name := logName{account, key}
	if g := l.logs[name]; g != nil {
		return g
	}
	if len(l.logs) >= l.sweepAt {
		for name, g := range l.logs {
			if name.key != "" && g.last+2*g.horizon < now {
				delete(l.logs, name)
			}
		}
		l.sweepAt = 2*len(l.logs) + 1024
	}
	g := newLog(name)
	if key != "" {
		g.cooldowns = l.log(account, "", now).cooldowns
	}
	l.logs[name] = g
	return g
}

// question is a charge at one instant.
type question struct{ decide.Question }

func (l *Ledger) question(charge *quota.Charge, now int64) question {
	q := decide.Question{Now: now, Window: charge.Window, Limit: int64(charge.Limit)}
	if charge.Window.Kind() == quota.KindDaily {
		day, ok := l.days[charge.Window]
		if !ok || !day.Holds(now) {
			day = decide.DayOf(charge.Window, now)
			l.days[charge.Window] = day
		}
		q.Day = day
	}
	return question{q}
}

func (q question) ask(list *list, amount int64) (used, retryAt int64) {
	if q.Window.Estimate() {
		return q.Estimate(list, amount)
	}
	return q.Fits(list, amount)
}

func (q question) stand(list *list) (used, since, free int64) {
	if q.Window.Estimate() {
		used, _ = q.Estimate(list, 0)
		return used, 0, q.EstimateFree(list)
	}
	used, since = q.Used(list)
	return used, since, q.NextFree(list)
}
