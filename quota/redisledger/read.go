package redisledger

import (
	"context"
	"encoding/binary"
	"iter"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Standings implements quota.Ledger.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	if err := (&quota.Batch{Account: account, Key: key}).Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, patience)
	defer cancel()
	op := &scriptRunner{ledger: l, ctx: within}
	a := l.cache(account)
	var serverTime int64
	for range maxRounds {
		if a.unknown() {
			if err := l.learn(op, account, nil); err != nil {
				return nil, ended(ctx, err)
			}
		}
		now, at := l.clock(serverTime)
		keys, args, held := a.question(l.names(account, key), key, charges, now, at)
		reply, err := op.run(&standingsScript, keys, args)
		if err != nil {
			return nil, ended(ctx, err)
		}
		code := reply.number()
		switch {
		case code == answered && !reply.bad:
			standings := readStandings(reply, account, held)
			if reply.bad {
				return nil, l.failed(errMalformed, down, false)
			}
			return standings, nil
		case code == otherDay:
			serverTime = reply.number()
		default:
			a.forget(args[0].(string))
		}
	}
	return nil, l.failed(errUnstable, down, false)
}

// ended returns the cause of the caller's context if it is done, else err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// question returns the keys and arguments of standings.lua, and the charges
// that hold.
func (a *accountCache) question(n names, key string, charges []*quota.Charge, now string, at int64) ([]string, []any, []*quota.Charge) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if held := a.limits.stored.Held(charges, at); held != nil {
		charges = held
	}
	of := &a.scopes[scopeOf(key)]
	s := sources{items: of.items, names: n}
	args := []any{a.head, now, a.horizonArg(scopeOf(key)), nil}
	var packed []byte
	for _, c := range charges {
		def, q := "", demandOf(c.Coverage, c.Window)
		if q.key != historyDemand(0).key {
			def = define(c.Coverage)
		}
		place := of.find(q)
		if place >= 0 {
			of.recordUse(q)
		}
		args = append(args, def)
		packed = packCharge(packed, a, c, []int64{s.number(place)}, edge{}, at)
	}
	args[3] = packNames(packed, charges)
	return append([]string{n.meta, n.cooldowns, n.log}, s.keys...), args, charges
}

func readStandings(r *reply, account string, charges []*quota.Charge) []quota.Standing {
	at, ahead := decide.Time(r.number()), time.Duration(r.number())*time.Microsecond
	standings := make([]quota.Standing, len(charges))
	for i, c := range charges {
		used, over := r.number(), r.number()
		since, earlier := r.number(), r.number()
		free, till := r.number(), r.number()
		budget, reason := r.text(), r.text()
		s := quota.Standing{At: at, Used: quota.Units(used), Over: quota.Units(over), Earlier: quota.Units(earlier), Ahead: ahead}
		if c.OwnLimit > 0 {
			s.Limit, s.LimitUntil = c.Limit, c.LimitUntil
		}
		if since > 0 {
			s.Since = decide.Time(since)
		}
		if free > 0 {
			s.NextFree = decide.Time(free)
		}
		if till > 0 {
			s.Cooldown = &quota.Cooldown{Account: account, Budget: budget, Until: decide.Time(till), Reason: reason}
		}
		standings[i] = s
	}
	return standings
}

// pageSize is how many entries one script reads, in 0.1 to 0.2 ms.
const pageSize = 250

// A record of the log has recordBytes; one of a note or correction tailBytes
// more. See layout.lua.
const (
	recordBytes = 29
	tailBytes   = 5
)

// Entries implements quota.Ledger. The store keeps the low 32 bits of an
// ID's Seq.
func (l *Ledger) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return decide.Pages(query, pageSize, func(page decide.Page) ([]quota.Entry, error) {
		if err := (&quota.Batch{Account: query.Account, Key: query.Key}).Check(); err != nil {
			return nil, err
		}
		return l.page(ctx, query, page)
	})
}

func (l *Ledger) page(ctx context.Context, query quota.Query, p decide.Page) ([]quota.Entry, error) {
	what := readOldest
	if p.Newest {
		what = readNewest
	}
	reply, _, err := l.readLog(ctx, query, p, what)
	if err != nil {
		return nil, err
	}
	var page []quota.Entry
	for reply.more() {
		r, ok := readRecord(reply.text())
		words := reply.text()
		label := parseLabel(words)
		if reply.bad || !ok {
			return nil, l.failed(errMalformed, config, false)
		}
		page = append(page, quota.Entry{At: decide.Time(r.stamp), ID: r.id, Kind: r.kind, Method: label.method, Caller: label.caller, Units: r.units, Calls: r.calls, Unlabelled: words == ""})
	}
	return page, nil
}

// Modes of entries.lua.
const (
	readOldest = byte(iota)
	readNewest
	readPlace
)

// readLog runs entries.lua. It also returns the head that the account had.
func (l *Ledger) readLog(ctx context.Context, query quota.Query, p decide.Page, what byte) (_ *reply, head string, _ error) {
	if err := ctx.Err(); err != nil {
		return nil, "", context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, patience)
	defer cancel()
	op, n := &scriptRunner{ledger: l, ctx: within}, l.names(query.Account, query.Key)
	const latest = 1<<53 - 1
	arg := number(number(nil, min(max(p.From, 0), latest), 7), min(max(p.Until, 0), latest), 7)
	arg = append(number(arg, int64(p.Most), 4), what)
	reply, err := l.inform(op, query.Account, func(a *accountCache) (*script, []string, []any) {
		head = a.head
		return &entriesScript, []string{n.meta, n.log}, []any{head, a.horizonArg(scopeOf(query.Key)), string(arg)}
	})
	if err != nil {
		return nil, "", ended(ctx, err)
	}
	return reply, head, nil
}

// record is a record of the log.
type record struct {
	stamp        int64
	label        int64
	id           quota.ID
	kind         quota.EntryKind
	units, calls quota.Units
}

func readRecord(packed string) (record, bool) {
	if len(packed) != recordBytes && len(packed) != recordBytes+tailBytes {
		return record{}, false
	}
	b := []byte(packed) // does not copy
	amount := binary.BigEndian.Uint32(b[13:])
	r := record{
		stamp: int64(binary.BigEndian.Uint64(b) >> 8),
		label: int64(binary.BigEndian.Uint16(b[17:])),
		id:    quota.ID{Client: binary.BigEndian.Uint64(b[17:]) & (1<<48 - 1), Seq: uint64(binary.BigEndian.Uint32(b[25:]))},
		units: quota.Units(amount & (1<<31 - 1)),
	}
	switch {
	case amount < 1<<31:
		r.calls = 1
	case len(packed) > recordBytes:
		r.kind, r.calls = quota.EntryKind(b[33]), quota.Units(binary.BigEndian.Uint32(b[29:]))
	case r.units == 0:
		r.kind = quota.EntryRefunded
	default:
		r.kind = quota.EntryAddition
	}
	return r, true
}

// inform runs a script that takes the cached head of an account and first
// answers whether it is current; if it is not, the account is learned and the
// script run again. encode is called with the cache locked.
func (l *Ledger) inform(op *scriptRunner, account string, encode func(*accountCache) (*script, []string, []any)) (*reply, error) {
	a := l.cache(account)
	for range maxRounds {
		if a.unknown() {
			if err := l.learn(op, account, nil); err != nil {
				return nil, err
			}
		}
		a.mu.Lock()
		head := a.head
		s, keys, args := encode(a)
		a.mu.Unlock()
		reply, err := op.run(s, keys, args)
		if err != nil {
			return nil, err
		}
		switch code := reply.number(); {
		case reply.bad || code > otherHead:
			return nil, l.failed(errMalformed, config, op.doubt)
		case code == answered:
			return reply, nil
		}
		a.forget(head)
	}
	return nil, l.failed(errUnstable, down, op.doubt)
}
