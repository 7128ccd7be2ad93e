// Package redisledger keeps a quota.Ledger in Redis 6.2 or later, or Valkey,
// for processes on more than one host.
//
// Redis' own clock is the authority. Each decision is one script, which runs
// alone; it is sent again when its answer was lost, and is then answered as
// before. All keys of one account share a hash tag, so in a cluster an account
// is one shard.
package redisledger

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/combine"
)

// Options are for Open and New; nil is the default.
type Options struct {
	// Now is a clock for tests; nil is the server's. With it set nothing
	// depends on real time, and keys do not expire by themselves.
	Now func() time.Time
	// Prefix begins the names of all keys; empty is "ration".
	Prefix string

	// Username, Password and SentinelPassword are used instead of the URL's
	// unless they are empty, so that no secret need be in a URL. New
	// ignores them.
	Username         string
	Password         string
	SentinelPassword string
}

// patience is how long one decision may take in all.
const patience = time.Second

// Ledger is a quota.Ledger in Redis. It is safe for concurrent use; many, in
// any number of processes, share what is recorded under one prefix.
type Ledger struct {
	client   redis.UniversalClient
	own      bool     // Open made the client
	where    string   // the server's address, for messages; never its password
	address  *address // of Open, else nil
	prefix   string
	now      func() time.Time // injected, or nil
	host     func() time.Time // this host's clock: the first guess at the store's
	patience time.Duration    // patience, or longer in a test
	spends   *combine.Combiner
	named    combine.Core  // decides batches with an id
	dials    *atomic.Int64 // how many connections were made; 0 for a given client

	mu       sync.Mutex
	accounts map[string]*accountCache

	sums sumCache
}

// Open returns a ledger on the servers that url names:
//
//	redis://[user[:password]@]host[:port][/db]
//	unix:///path/of/the.sock[?db=0]
//	redis+sentinel://[user[:password]@]host[:port],host[:port]…/MASTER[/db]
//	redis+cluster://[user[:password]@]host[:port],host[:port]…
//
// With rediss instead of redis the connections are TLS, those to sentinels too.
// Parameters: protocol=2 or 3; with TLS ca=FILE, cert=FILE and key=FILE (of the
// client), server_name=NAME, and insecure_skip_verify=true, which trusts
// any server; of sentinels sentinel_user=NAME and sentinel_password=WORD.
// Nothing else is understood.
//
// With wait_replicas=N a grant is answered once N replicas have it (WAIT), so
// that it survives a failover to one of them. If they do not acknowledge it
// within the second of a decision, the spend fails with ErrInDoubt, and the
// call is charged.
//
// The client, of package github.com/redis/go-redis/v9, writes connections that
// fail to stderr. Disable of its package logging turns that off for the
// program; the errors of the ledger say the same.
//
// Open does not dial: the first use reports what is wrong. Its error is an
// *AddressError, which never shows a password. The user and password are the
// servers', not the sentinels'.
func Open(url string, o *Options) (*Ledger, error) { return open(url, o, patience) }

// open is Open with another patience, for tests that must get the same answers
// on a busy machine.
func open(url string, o *Options, patience time.Duration) (*Ledger, error) {
	a, err := parse(url)
	if err == nil {
		err = a.fill(o)
	}
	if err != nil {
		return nil, err
	}
	dials := new(atomic.Int64)
	client, err := a.client(dials, patience)
	if err != nil {
		return nil, err
	}
	l := newLedger(client, o, patience)
	l.own = true
	l.where = a.String()
	l.address = a
	l.dials = dials
	return l, nil
}

// New returns a ledger on a client of the caller's, whatever its kind and
// settings. Close leaves the client open.
func New(client redis.UniversalClient, o *Options) *Ledger { return newLedger(client, o, patience) }

func newLedger(client redis.UniversalClient, o *Options, patience time.Duration) *Ledger {
	l := &Ledger{client: client, patience: patience, where: "the given client", prefix: "ration", host: time.Now, dials: new(atomic.Int64), accounts: map[string]*accountCache{}}
	if o != nil {
		l.now = o.Now
		if o.Prefix != "" {
			l.prefix = escape(o.Prefix, ":/")
		}
	}
	l.named = l.spendNamed
	l.spends = combine.New(l.spend, func(r quota.Receipt) { _ = l.Refund(context.Background(), r) }, patience)
	return l
}

// RealTime implements quota.RealTimeLedger.
func (l *Ledger) RealTime() bool { return l.now == nil }

// Spend implements quota.Ledger. Concurrent calls on one log share round trips.
// A batch of more than 65,535 requests, or of more than 128 different
// coverages, is an ErrBadCall.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := batch.Check(); err != nil {
		return nil, err
	}
	if batch.Client != 0 {
		return combine.Alone(ctx, l.named, batch)
	}
	return l.spends.Spend(ctx, batch)
}

// Around implements quota.CombiningLedger.
func (l *Ledger) Around(layer func(quota.SpendFunc) quota.SpendFunc) {
	l.spends.Around(layer)
	l.named = layer(l.named)
}

// bounded adds the longest wait to a context. Past it, the ledger is down.
func (l *Ledger) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, max(wait, l.patience), &downError{l.where, errSilent})
}

// Close implements quota.Ledger.
func (l *Ledger) Close() error {
	l.sums.clearUnused()
	if !l.own {
		return nil
	}
	return l.client.Close()
}

// clock returns the injected time as scripts take it, empty for the server's,
// and the ledger's time in microseconds: serverTime, or a guess if it is 0.
func (l *Ledger) clock(serverTime int64) (arg string, now int64) {
	switch {
	case l.now != nil:
		now = max(0, l.now().UnixMicro())
		return string(number(nil, now, 7)), now
	case serverTime > 0:
		return "", serverTime
	}
	return "", l.host().UnixMicro()
}
