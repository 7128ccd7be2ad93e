// Package redisledger keeps a quota.Ledger in Redis 6.2 or later, or Valkey,
// for processes on more than one host.
//
// Redis' own clock is the authority. Each decision is one script, which runs
// alone; it is sent again when its answer was lost, and is then answered as
// before. All keys of one account share a hash tag, so in a cluster an account is one shard.
package redisledger

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

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
}

// patience is how long one decision may take in all.
const patience = time.Second

// Ledger is a quota.Ledger in Redis. It is safe for concurrent use; many, in
// any number of processes, share what is recorded under one prefix.
type Ledger struct {
	client redis.UniversalClient
	own    bool   // Open made the client
	where  string // the server's address, for messages; never its password
	prefix string
	now    func() time.Time // injected, or nil
	host   func() time.Time // this host's clock: the first guess at the store's
	spends *combine.Combiner

	mu       sync.Mutex
	accounts map[string]*account
}

// Open returns a ledger on the server that url names: redis://host:port/db, or
// rediss:// for TLS. It does not dial: the first use reports what is wrong. Its
// errors are ErrLedgerConfig, and never show the password.
func Open(url string, o *Options) (*Ledger, error) {
	scheme, _, _ := strings.Cut(url, "://")
	if scheme != "redis" && scheme != "rediss" {
		if strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+-") != "" {
			scheme = "?"
		}
		return nil, fmt.Errorf("redisledger: open: %w: the scheme %q is unknown; write redis://host:6379/0, or rediss:// for TLS", quota.ErrLedgerConfig, scheme)
	}
	options, err := redis.ParseURL(url)
	if err != nil { // its text may hold the password
		return nil, fmt.Errorf("redisledger: open: %w: the %s URL cannot be read; write %s://host:6379/0, special characters of a password percent-encoded",
			quota.ErrLedgerConfig, scheme, scheme)
	}
	options.DialTimeout = patience / 2
	options.ReadTimeout = patience
	options.WriteTimeout = patience
	options.PoolTimeout = patience
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1 // the ledger itself sends again what is safe to
	options.DialerRetries = 1
	options.DisableIdentity = true // one command less that an ACL must allow
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	l := New(redis.NewClient(options), o)
	l.own, l.where = true, options.Addr
	return l, nil
}

// New returns a ledger on a client of the caller's, whatever its kind and
// settings. Close leaves the client open.
func New(client redis.UniversalClient, o *Options) *Ledger {
	l := &Ledger{client: client, where: "the given client", prefix: "ration", host: time.Now, accounts: map[string]*account{}}
	if o != nil {
		l.now = o.Now
		if o.Prefix != "" {
			l.prefix = escape(o.Prefix, ":/")
		}
	}
	l.spends = combine.New(l.spend, func(r quota.Receipt) { _ = l.Refund(context.Background(), r) }, patience)
	return l
}

// Spend implements quota.Ledger. Concurrent calls on one log share round trips.
func (l *Ledger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := batch.Check(); err != nil {
		return nil, err
	}
	return l.spends.Spend(ctx, batch)
}

// Close implements quota.Ledger.
func (l *Ledger) Close() error {
	if !l.own {
		return nil
	}
	return l.client.Close()
}

// clock returns the injected time as scripts take it, empty for the server's,
// and the ledger's time in microseconds: what the store told last, or a guess.
func (l *Ledger) clock(told int64) (arg string, now int64) {
	switch {
	case l.now != nil:
		now = max(0, l.now().UnixMicro())
		return string(number(nil, now, 7)), now
	case told > 0:
		return "", told
	}
	return "", l.host().UnixMicro()
}
