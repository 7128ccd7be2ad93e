package journal_test

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/combine"
	"github.com/ration-dev/ration/quota/memledger"
)

// fault is what goes wrong with one exchange of a process with its ledger.
type fault string

const (
	requestLost fault = "the request is lost"
	answerLost  fault = "the answer is lost"
	answersLost fault = "the answer is lost, and that to the next request too"
	goesDown    fault = "the answer is lost, and the ledger is down"
	diesBefore  fault = "the process is killed before the request arrives"
	diesAfter   fault = "the process is killed before the answer arrives"
)

// kill is what a process that is killed panics with.
type kill struct{}

// network is between processes and a ledger in memory. A test says which of
// their exchanges have faults, and may put another log in the ledger's place.
type network struct {
	log        *memledger.Ledger
	life       int // of the log; another one has another
	isDown     bool
	faults     map[int]fault // by the number of the exchange
	exchanges  int           // so far
	isAnswered bool          // a spend was answered,
	isHit      bool          // and an exchange since had a fault
	event      func(format string, args ...any)
}

// exchange sends one request to the ledger, which does it or not, and whose
// answer arrives or not.
func (n *network) exchange(do func()) (sent, answered bool) {
	time.Sleep(time.Millisecond)
	if n.isDown {
		return false, false
	}
	f := n.faults[n.exchanges]
	n.exchanges++
	if f != "" {
		n.isHit = true
		n.event("  exchange %d: %s", n.exchanges, f)
	}
	switch f {
	case diesBefore:
		panic(kill{})
	case requestLost:
		time.Sleep(time.Second)
		return true, false
	}
	do()
	time.Sleep(time.Millisecond)
	switch f {
	case "":
		return true, true
	case diesAfter:
		panic(kill{})
	case answersLost:
		n.faults[n.exchanges] = answerLost
	case goesDown:
		n.isDown = true
		return true, false
	}
	time.Sleep(time.Second)
	return true, false
}

// ask lets the ledger do something in an exchange, and in a second one if no
// answer arrives.
func ask[T any](n *network, do func() (T, error)) (answer T, err error) {
	isSent := false
	for range 2 {
		sent, answered := n.exchange(func() { answer, err = do() })
		if answered {
			return answer, err
		}
		isSent = isSent || sent
	}
	if isSent {
		return *new(T), quota.ErrInDoubt
	}
	return *new(T), quota.ErrLedgerDown
}

func (n *network) tell(do func() error) error {
	_, err := ask(n, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// remote is the connection of a process. As the one to a Redis does, it
// combines spends, and looks for the newest entry that the process knows once
// a minute, and when it is new.
type remote struct {
	quota.Ledger // nil: what is not overridden must not be called
	*network
	combiner *combine.Combiner
	looked   time.Time
	seen     int // the life of the log in which it has looked; -1 before
}

func (n *network) connect() quota.Ledger {
	c := &remote{network: n, seen: -1}
	c.combiner = combine.New(c.send, func(quota.Receipt) {}, time.Minute)
	return c
}

func (c *remote) RealTime() bool { return true }

func (c *remote) Close() error { return nil }

func (c *remote) Around(layer func(quota.SpendFunc) quota.SpendFunc) { c.combiner.Around(layer) }

func (c *remote) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	return c.combiner.Spend(ctx, batch)
}

func (c *remote) send(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	answers, err := ask(c.network, func() ([]quota.Answer, error) { return c.decide(ctx, *batch) })
	if err == nil {
		c.isAnswered, c.isHit = true, false
	}
	return answers, err
}

// decide has the ledger decide a batch.
func (c *remote) decide(ctx context.Context, batch quota.Batch) ([]quota.Answer, error) {
	isNew := c.seen != c.life || time.Since(c.looked) >= time.Minute
	if !isNew {
		return c.log.Spend(ctx, &batch)
	}
	batch.Known = batch.NewestKnown()
	known := batch.Known
	if known.ID == (quota.ID{}) || batch.Key != "" {
		return c.log.Spend(ctx, &batch)
	}
	if !c.holds(ctx, known) {
		return nil, batch.Forgotten(0, time.Time{})
	}
	answers, err := c.log.Spend(ctx, &batch)
	if !errors.Is(err, quota.ErrLedgerLost) {
		c.seen, c.looked = c.life, time.Now()
	}
	return answers, err
}

// holds reports whether the log has an entry, or can no longer have it because
// it is too old.
func (c *remote) holds(ctx context.Context, known quota.Receipt) bool {
	if time.Since(known.At) > 24*time.Hour {
		return true
	}
	for e := range c.log.Entries(ctx, quota.Query{Account: account, Since: known.At, Until: known.At.Add(time.Microsecond)}) {
		return e.ID == known.ID
	}
	return false
}

func (c *remote) Settle(ctx context.Context, r quota.Receipt, units quota.Units) error {
	return c.tell(func() error { return c.log.Settle(ctx, r, units) })
}

func (c *remote) Refund(ctx context.Context, r quota.Receipt) error {
	return c.tell(func() error { return c.log.Refund(ctx, r) })
}

func (c *remote) SetCooldown(ctx context.Context, cooldown quota.Cooldown) error {
	return c.tell(func() error { return c.log.SetCooldown(ctx, cooldown) })
}

func (c *remote) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	return ask(c.network, func() ([]quota.Standing, error) { return c.log.Standings(ctx, account, key, charges) })
}

func (c *remote) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	return ask(c.network, func() (quota.RestoreResult, error) { return c.log.Restore(ctx, r) })
}

func (c *remote) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		entries, err := ask(c.network, func() ([]quota.Entry, error) { return entriesOf(ctx, c.log, query) })
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(quota.Entry{}, err)
		}
	}
}

func entriesOf(ctx context.Context, l quota.Ledger, query quota.Query) (entries []quota.Entry, err error) {
	for e, err := range l.Entries(ctx, query) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
