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
// errors are of the context and of bad calls. An entry takes some 50 bytes,
// and 16 for each further coverage that counts it; a log that is asked Counter
// windows alone keeps no entries.
type Ledger struct {
	now      func() time.Time
	realTime bool

	mu      sync.Mutex
	client  uint64 // names the requests of batches that come without an id
	seq     uint64
	logs    map[logName]*log
	recent  *log // the last one asked for
	days    decide.Days
	answers []quota.Answer // not used yet
	held    []quota.Held   // not used yet
	sweepAt int            // look for idle keyed logs when there are so many
}

var _ quota.RealTimeLedger = (*Ledger)(nil)

type logName struct{ account, key string }

// Open returns an empty ledger.
func Open(o *Options) *Ledger {
	l := &Ledger{now: time.Now, realTime: o == nil || o.Now == nil, client: quota.NewClient(), seq: 1, logs: map[logName]*log{}, days: decide.Days{}, sweepAt: 1024}
	if o != nil && o.Now != nil {
		l.now = o.Now
	}
	return l
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return l.realTime }

// Spend implements quota.Ledger.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := batch.Check(); err != nil {
		return nil, err
	}
	now := l.now().UnixMicro() // before the turn has come: a little late frees nothing early
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.log(logName{batch.Account, batch.Key}, now)
	client, seq := batch.Client, batch.Seq
	if client == 0 {
		client, seq = l.client, l.seq
		l.seq += uint64(len(batch.Requests))
	}
	answers, before := l.blank(len(batch.Requests)), g.remembered(batch)
	g.Now = now
	g.asked(batch.History)
	for i := range batch.Requests {
		id := quota.ID{Client: client, Seq: seq + uint64(i)}
		stamp, granted := before[id.Seq]
		r := &batch.Requests[i]
		if !granted {
			if err := g.judge(now).Admit(g, r); err != nil {
				answers[i].Err = err
				continue
			}
			stamp = g.record(r, now, id)
			if batch.Client != 0 {
				g.remember(batch, id.Seq, stamp)
			}
			answers[i].Held = g.Held(g, r, stamp, l.noneHeld(len(r.Charges)))
		}
		receipt := &answers[i].Receipt
		receipt.Account, receipt.Key, receipt.ID, receipt.At = batch.Account, batch.Key, id, decide.Instant(stamp)
	}
	return answers, nil
}

// blank returns so many empty answers. Most are asked for one at a time, and
// so cut from a piece that is made for several: that takes a third of the time.
func (l *Ledger) blank(n int) []quota.Answer {
	const piece = 32
	if n > piece/4 {
		return make([]quota.Answer, n)
	}
	if len(l.answers) < n {
		l.answers = make([]quota.Answer, piece)
	}
	answers := l.answers[:n:n]
	l.answers = l.answers[n:]
	return answers
}

// noneHeld returns an empty list with room for n, cut from a piece as blank's are.
func (l *Ledger) noneHeld(n int) []quota.Held {
	const piece = 64
	if n > piece/4 {
		return make([]quota.Held, 0, n)
	}
	if len(l.held) < n {
		l.held = make([]quota.Held, piece)
	}
	held := l.held[:0:n]
	l.held = l.held[n:]
	return held
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
	name := logName{account, key}
	g := l.logs[name]
	if g == nil {
		g = newLog(name, l.days, nil)
		if of := l.logs[logName{account: account}]; of != nil {
			g.cooldowns = of.cooldowns
		}
	}
	judge := g.judge(l.now().UnixMicro())
	standings := make([]quota.Standing, len(charges))
	for i, charge := range charges {
		standings[i] = judge.Standing(onlooker{g}, charge)
	}
	return standings, nil
}

// pageSize is how many entries are copied while others wait.
const pageSize = 500

// Entries implements quota.Ledger.
func (l *Ledger) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return decide.Pages(query, pageSize, func(page decide.Page) ([]quota.Entry, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		g := l.logs[logName{query.Account, query.Key}]
		if g == nil {
			return nil, nil
		}
		return g.page(page), nil
	})
}

// Sums implements quota.Ledger.
func (l *Ledger) Sums(ctx context.Context, query quota.Query) iter.Seq2[quota.Sum, error] {
	query.Newest = false
	return decide.SumEntries(l.Entries(ctx, query), query.PerClient)
}

// SetCooldown implements quota.Ledger.
func (l *Ledger) SetCooldown(_ context.Context, c quota.Cooldown) error {
	if err := (&quota.Batch{Account: c.Account, Key: c.Budget}).Check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UnixMicro()
	c = decide.Cooled(c, now)
	g := l.log(logName{account: c.Account}, now)
	if have := g.cooldowns[c.Budget]; have == nil || c.Until.After(have.Until) {
		g.cooldowns[c.Budget] = &c
	}
	return nil
}

// ClearCooldown implements quota.Ledger.
func (l *Ledger) ClearCooldown(_ context.Context, account, budget string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g := l.logs[logName{account: account}]; g != nil {
		delete(g.cooldowns, budget)
	}
	return nil
}

// Keys implements quota.Ledger.
func (l *Ledger) Keys(ctx context.Context, account string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		l.mu.Lock()
		var keys []string
		for name := range l.logs {
			if name.account == account && name.key != "" {
				keys = append(keys, name.key)
			}
		}
		l.mu.Unlock()
		for _, key := range keys {
			if err := ctx.Err(); err != nil {
				yield("", err)
				return
			}
			if !yield(key, nil) {
				return
			}
		}
	}
}

// Restamp implements quota.Ledger.
func (l *Ledger) Restamp(_ context.Context, account, key string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.logs[logName{account, key}]
	if g == nil {
		return 0, nil
	}
	now := l.now().UnixMicro()
	g.Now = now
	if key == "" {
		for budget, c := range g.cooldowns {
			if c, changed := decide.Recooled(*c, now); changed {
				g.cooldowns[budget] = &c
			}
		}
	}
	return g.restamp(now), nil
}

// Close implements quota.Ledger. The ledger stays usable.
func (l *Ledger) Close() error { return nil }

// log returns a log, made when it is not there. Logs with a key go when they
// have been idle for twice their horizon.
func (l *Ledger) log(name logName, now int64) *log {
	if g := l.recent; g != nil && g.Account == name.account && g.Key == name.key {
		return l.recent
	}
	g := l.logs[name]
	if g == nil {
		g = l.make(name, now)
	}
	l.recent = g
	return g
}

func (l *Ledger) make(name logName, now int64) *log {
	if len(l.logs) >= l.sweepAt {
		for name, g := range l.logs {
			if name.key != "" && g.idle(now) {
				delete(l.logs, name)
			}
		}
		l.sweepAt = 2*len(l.logs) + 1024
	}
	cooldowns := map[string]*quota.Cooldown{}
	if name.key != "" {
		cooldowns = l.log(logName{account: name.account}, now).cooldowns
	}
	g := newLog(name, l.days, cooldowns)
	l.logs[name] = g
	return g
}
