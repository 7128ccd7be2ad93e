//go:build !race

package sim

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/combine"
)

// remote is a process's connection to the server. As the ledger of Redis
// does, it combines concurrent spends and sends a batch whose answer was lost
// once more.
type remote struct {
	quota.Ledger // nil: what is not overridden must not be called
	server       *server
	combiner     *combine.Combiner
	dead         func() bool // the process was killed

	mu     sync.Mutex
	rng    *rand.Rand // of the combiner; a call has its own
	life   int        // of the server when the connection was made; -1 before
	looked time.Time
	asked  bool      // what the budgets hold, just now
	heard  time.Time // when it was last told that, but for grants

	decided     time.Time // when the server last decided a batch,
	decidedLife int       // in which of its lives,
	newestLife  int       // and in which it said what its newest entry is since; -1 before
}

const (
	timeout     = time.Second
	mostLatency = 40 * time.Millisecond
	attempts    = 2
)

func newRemote(s *server, seed1, seed2 uint64, dead func() bool) *remote {
	c := &remote{server: s, dead: dead, rng: rand.New(rand.NewPCG(seed1, seed2)), life: -1}
	c.combiner = combine.New(c.send, func(r quota.Receipt) { _ = c.Refund(context.Background(), r) }, 3*timeout)
	return c
}

func (c *remote) RealTime() bool { return true }

// dice are the random numbers of one goroutine, so that their order is that of
// its program.
type dice struct {
	mu  *sync.Mutex
	rng *rand.Rand
}

func (c *remote) dice(ctx context.Context) dice {
	if call := callFrom(ctx); call != nil {
		return dice{new(sync.Mutex), call.rng}
	}
	return dice{&c.mu, c.rng}
}

func (d dice) draw(most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(1 + d.rng.Int64N(int64(most)))
}

func (d dice) chance(p float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Float64() < p
}

// exchange sends one request to the server, which does it or not, and whose
// answer arrives or not.
func (c *remote) exchange(d dice, do func()) (sent, answered bool) {
	s := c.server
	if c.dead() {
		return true, false
	}
	time.Sleep(d.draw(mostLatency / 2))
	now := time.Now()
	switch {
	case now.Before(s.down):
		return false, false
	case now.Before(s.lossy) && d.chance(0.3):
		time.Sleep(timeout)
		return true, false
	case now.Before(s.slow):
		time.Sleep(d.draw(timeout))
	}
	if c.dead() {
		return true, false
	}
	s.mu.Lock()
	do()
	s.mu.Unlock()
	if now.Before(s.slow) || now.Before(s.lossy) && d.chance(0.3) {
		time.Sleep(timeout)
		return true, false
	}
	time.Sleep(d.draw(mostLatency / 2))
	return true, !c.dead()
}

// call is exchange with attempts.
func (c *remote) call(ctx context.Context, do func()) error {
	d := c.dice(ctx)
	doubt := false
	for range attempts {
		sent, answered := c.exchange(d, do)
		if answered {
			return nil
		}
		doubt = doubt || sent
	}
	if doubt {
		return quota.ErrInDoubt
	}
	return quota.ErrLedgerDown
}

// spend has the server decide a batch. It looks first for the entry that
// the client knows if the connection is new to the server's present life,
// or the last look that found it was more than a minute ago. The caller
// holds server.mu.
func (c *remote) spend(batch quota.Batch) ([]quota.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isNew := c.life != c.server.life || time.Since(c.looked) >= time.Minute
	answers, err := c.server.spend(batch, isNew)
	c.decided, c.decidedLife, c.newestLife = time.Now(), c.server.life, -1
	looked := isNew && batch.Key == "" && batch.Known.ID != (quota.ID{})
	if looked && !errors.Is(err, quota.ErrLedgerLost) {
		c.life, c.looked = c.server.life, time.Now()
	}
	return answers, err
}

func (c *remote) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	return c.combiner.Spend(ctx, batch)
}

func (c *remote) send(ctx context.Context, batch *quota.Batch) (answers []quota.Answer, err error) {
	failed := c.call(ctx, func() { answers, err = c.spend(*batch) })
	if failed != nil {
		return nil, failed
	}
	return answers, err
}

func (c *remote) Settle(ctx context.Context, r quota.Receipt, units quota.Units) (err error) {
	if failed := c.call(ctx, func() { err = c.server.log.Settle(ctx, r, units) }); failed != nil {
		return failed
	}
	return err
}

func (c *remote) Refund(ctx context.Context, r quota.Receipt) (err error) {
	if failed := c.call(ctx, func() { err = c.server.log.Refund(ctx, r) }); failed != nil {
		return failed
	}
	return err
}

func (c *remote) Standings(ctx context.Context, account, key string, charges []*quota.Charge) (standings []quota.Standing, err error) {
	if failed := c.call(ctx, func() { standings, err = c.server.log.Standings(ctx, account, key, charges) }); failed != nil {
		return nil, failed
	}
	c.asked = charges[0].Budget != "" // not only for the ledger's clock
	return standings, err
}

func (c *remote) SetCooldown(ctx context.Context, cooldown quota.Cooldown) (err error) {
	if failed := c.call(ctx, func() { err = c.server.log.SetCooldown(ctx, cooldown) }); failed != nil {
		return failed
	}
	return err
}

func (c *remote) Restore(ctx context.Context, r *quota.Restoration) (done quota.RestoreResult, err error) {
	if failed := c.call(ctx, func() { done, err = c.server.restore(r) }); failed != nil {
		return quota.RestoreResult{}, failed
	}
	return done, err
}

func (c *remote) Close() error { return nil }

func (c *remote) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		var entries []quota.Entry
		if failed := c.call(ctx, func() { entries = slices.Collect(first(c.server.log.Entries(ctx, query))) }); failed != nil {
			yield(quota.Entry{}, failed)
			return
		}
		if query.Newest && len(entries) > 0 {
			c.newestLife = c.server.life
		}
		if c.asked && len(entries) > 0 { // the journal has asked whether the log is still the same
			c.heard = time.Now()
		}
		c.asked = false
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// first returns the entries of a ledger in memory, which does not fail.
func first(all iter.Seq2[quota.Entry, error]) iter.Seq[quota.Entry] {
	return func(yield func(quota.Entry) bool) {
		for e := range all {
			if !yield(e) {
				return
			}
		}
	}
}
