// Package redisledger keeps the logs of accounts in Redis 6.2 or later, or
// Valkey, for processes on more than one host.
//
// Redis' own clock is the authority. One script appends and reads; it runs
// alone, so each append and each page is of one moment. An account has two keys
// with one hash tag, so in a cluster it is in one slot:
//
//	ration:{ACCOUNT}:head     a hash: epoch, position, first, newest, gen, tag and
//	                          totals, which has 8 bytes for each total
//	ration:{ACCOUNT}:batches  a list: one element a batch, from first to position
//
// An element is the timestamp of the batch's first record, 8 bytes of
// microseconds, and then the batch as package engine encodes it, which begins
// with its tag of 10 bytes. Packed numbers are big-endian. In ACCOUNT all but
// letters, digits, '.', '_' and '-' is percent-encoded. The keys never expire:
// what no window needs is trimmed by an append.
//
// To look at a log, use ration log, or:
//
//	redis-cli --scan --pattern 'ration:{*}:head'      the accounts
//	redis-cli HGETALL 'ration:{my-project}:head'      the head
//	redis-cli LLEN 'ration:{my-project}:batches'      how many batches there are
//	redis-cli LRANGE 'ration:{my-project}:batches' -5 -1   the newest five
//
// A head whose list is not as long as it says has lost batches. The log is then
// as if it had never been, and is created anew.
package redisledger

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
)

// Options are for Open and New; nil is the default.
type Options struct {
	// Now is a clock for tests; nil is the server's.
	Now func() time.Time
	// Prefix begins the names of all keys; empty is "ration".
	Prefix string
	// Import allows a log to be created beside a ledger of an earlier release,
	// as ration ledger copy does. Without it that is an ErrLedgerConfig, since
	// what the earlier one has recorded would count as unspent.
	Import bool

	// Username, Password and SentinelPassword are used instead of the URL's
	// unless they are empty, so that no secret need be in a URL. New
	// ignores them.
	Username         string
	Password         string
	SentinelPassword string
}

// patience is how long one operation may take in all.
const patience = time.Second

// Ledger is an engine.Ledger in Redis. It is safe for concurrent use. Any
// number of them, in any number of processes, share the logs under one prefix.
type Ledger struct {
	client   redis.UniversalClient
	address  *address // of Open; nil of New
	where    string   // the server's address, for messages; never its password
	prefix   string
	imports  bool
	now      func() time.Time // nil is the server's clock
	patience time.Duration
	closed   atomic.Bool
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
// client), server_name=NAME, and insecure_skip_verify=true, which trusts any
// server; of sentinels sentinel_user=NAME and sentinel_password=WORD. Other
// parameters are errors.
//
// The client, of package github.com/redis/go-redis/v9, writes connections that
// fail to stderr. Disable of its package logging turns that off for the
// program; the errors of the ledger say the same.
//
// Open does not dial: the first use reports what is wrong. Its error is an
// *AddressError, which never shows a password. The user and password are the
// servers', not the sentinels'.
func Open(url string, o *Options) (*Ledger, error) {
	a, err := parse(url)
	if err != nil {
		return nil, err
	}
	if err := a.setCredentials(o); err != nil {
		return nil, err
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	l := New(client, o)
	l.address, l.where = a, a.String()
	return l, nil
}

// New returns a ledger on a client of the caller's, whatever its kind and
// settings. Close leaves the client open.
func New(client redis.UniversalClient, o *Options) *Ledger {
	if o == nil {
		o = &Options{}
	}
	l := &Ledger{client: client, where: "the given client", prefix: "ration", imports: o.Import, now: o.Now,
		patience: patience}
	if o.Prefix != "" {
		l.prefix = escape(o.Prefix, ":/")
	}
	return l
}

// RealTime reports whether the ledger is on real time, not on a test clock.
func (l *Ledger) RealTime() bool { return l.now == nil }

// Client returns the client of the servers, by which ration ledger copy reads
// the keys of an earlier release.
func (l *Ledger) Client() redis.UniversalClient { return l.client }

// Append implements engine.Ledger.
func (l *Ledger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if err := a.Check(account); err != nil {
		return nil, err
	}
	args := l.arguments(account, &a.Known, l.conditions(a), a.Data)
	return l.run(ctx, &command{account: account, args: args, append: true})
}

// Read implements engine.Ledger.
func (l *Ledger) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	page := r.Bytes
	if page <= 0 {
		page = engine.DefaultPage
	}
	args := l.arguments(account, &r.Known, l.known(&r.Known, min(page, scriptPage)), nil)
	t, err := l.run(ctx, &command{account: account, args: args})
	if err == nil && t.More && page > scriptPage {
		l.extend(ctx, account, t, page)
	}
	return t, err
}

// Close implements engine.Ledger.
func (l *Ledger) Close() error {
	if l.closed.Swap(true) || l.address == nil {
		return nil
	}
	return l.client.Close()
}
