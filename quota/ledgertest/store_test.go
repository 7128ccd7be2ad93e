package ledgertest_test

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// store is a ledger in memory that fails, and forgets. All hosts share it.
type store struct {
	w      *world
	log    log
	life   int // rises when it forgets
	isDown bool
	ahead  time.Duration // by which its clock is wrong
	late   []lateAppend
}

// log is the log of the one account. A copy of it is a copy of the log, since
// nothing changes the batches that are in it.
type log struct {
	head    engine.Head
	batches []engine.Batch
	known   set // the events that it has, by the checker
}

// lateAppend is an append that reaches the ledger after its caller has heard
// that it is in doubt.
type lateAppend struct {
	append *engine.Append
	call   *quota.Call // that it may grant; nil if none
}

func (s *store) now() int64 { return time.Now().Add(s.ahead).UnixMicro() }

func (s *store) append(a *engine.Append) *engine.Tail {
	g, now := &s.log, s.now()
	tail := s.read(&engine.Read{Known: a.Known, Bytes: a.Bytes})
	if tail.Diverged || !g.head.Admits(a, now) {
		return tail
	}
	at := g.head.Append(a, now)
	if time.Now().After(s.w.lastWrong) && len(s.w.clocks) > 0 && correctsClock(a.Data) {
		s.w.lastWrong = time.Now()
	}
	g.batches = append(slices.Clip(g.batches),
		engine.Batch{Position: g.head.Position, At: at, Data: bytes.Clone(a.Data)})
	g.batches = g.batches[len(g.batches)-int(g.head.Position-g.head.Trimmed):]
	after := g.head.Tail(now)
	after.Appended, after.At = true, at
	after.Batches, after.More = tail.Batches, tail.More
	return after
}

// correctsClock reports whether a batch lets wrong timestamps count at its
// time.
func correctsClock(data []byte) bool {
	records, err := engine.Unpack(&engine.Batch{Data: data})
	return err != nil || slices.ContainsFunc(records, func(r engine.Record) bool { return r.Kind == engine.KindClock })
}

func (s *store) read(r *engine.Read) *engine.Tail {
	g, tail := &s.log, s.log.head.Tail(s.now())
	var tag engine.Tag
	if g.head.NeedsTag(&r.Known) {
		tag = g.batches[r.After-tail.First].Tag()
	}
	if tail.Diverged = g.head.HasDiverged(&r.Known, tag); tail.Diverged {
		return tail
	}
	page := engine.Page{Bytes: r.Bytes}
	for _, b := range g.batches[g.head.After(&r.Known)-g.head.Trimmed:] {
		if !page.Add(tail, b) {
			break
		}
	}
	return tail
}

// deliver lets the appends arrive that are late.
func (s *store) deliver() {
	for _, late := range s.late {
		if s.append(late.append).Appended {
			s.w.event("a late append arrives")
			if late.call != nil {
				s.w.unsent = append(s.w.unsent, unsent{time.Now(), *late.call})
			}
		}
	}
	s.late = nil
}

// conn is a process's connection to the store.
type conn struct {
	*store
	p      *process
	isDead bool // the process was killed
	served int  // how many requests were answered
	failed bool // one was refused since this was set to false
}

var _ engine.Ledger = (*conn)(nil)

// RealTime lets the engine decide as it does in production.
func (c *conn) RealTime() bool { return true }

func (c *conn) Append(_ context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if err := a.Check(account); err != nil {
		c.w.fail("a malformed append: %v", err)
	}
	if c.isDead || c.isDown {
		c.failed = true
		return nil, engine.ErrLedgerDown
	}
	switch c.w.drawFate() {
	case answerLost:
		c.w.event("%v: the answer to an append is lost: appended %t", c.p, c.append(a).Appended)
		return nil, engine.ErrInDoubt
	case appendLost:
		c.w.event("%v: an append is lost", c.p)
		return nil, engine.ErrInDoubt
	case appendLate:
		c.w.event("%v: an append is late", c.p)
		c.late = append(c.late, lateAppend{cloneAppend(a), c.w.asked})
		return nil, engine.ErrInDoubt
	case killedAfter:
		c.w.event("%v is killed after an append: appended %t", c.p, c.append(a).Appended)
		c.isDead = true
		return nil, engine.ErrInDoubt
	case killedBefore:
		c.w.event("%v is killed before an append", c.p)
		c.isDead = true
		return nil, engine.ErrInDoubt
	}
	c.served++
	return c.append(a), nil
}

// cloneAppend copies an append, whose memory the engine uses again.
func cloneAppend(a *engine.Append) *engine.Append {
	c := *a
	c.Data, c.Adds = bytes.Clone(a.Data), slices.Clone(a.Adds)
	c.Conditions = slices.Clone(a.Conditions)
	for i := range c.Conditions {
		c.Conditions[i].Steps = slices.Clone(c.Conditions[i].Steps)
		c.Conditions[i].Totals = slices.Clone(c.Conditions[i].Totals)
	}
	return &c
}

func (c *conn) Read(_ context.Context, _ string, r *engine.Read) (*engine.Tail, error) {
	if c.isDead || c.isDown {
		c.failed = true
		return nil, engine.ErrLedgerDown
	}
	c.served++
	return c.read(r), nil
}

func (c *conn) Accounts(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if c.log.head.Epoch != 0 {
			yield(account, nil)
		}
	}
}

func (c *conn) Close() error { return nil }
