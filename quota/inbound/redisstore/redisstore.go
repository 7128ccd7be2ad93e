// Package redisstore keeps the counts of package inbound in Redis, for servers
// on several hosts. It needs Redis 6.2 or later, or Valkey.
//
// Each request is one call of one script. A client has a key for each limit,
// such as inbound:{NAME:CLIENT}log:60/1m, which expires a minute after its
// content. Deleting it makes the client start anew.
package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota/inbound"
)

//go:embed count.lua
var script string

// Store implements inbound.Store. It is safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	sha    string // of the script
}

// Open returns a store on one server: redis://USER:PASSWORD@HOST:PORT/DB,
// rediss:// for TLS, or unix://PATH. It does not connect: while the server is
// down, Count returns errors.
func Open(address string) (*Store, error) {
	o, err := redis.ParseURL(address)
	if malformed, ok := errors.AsType[*url.Error](err); ok {
		err = malformed.Err // without the address, which may hold a password
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: address: %w", err)
	}
	o.DialTimeout = 500 * time.Millisecond
	o.DialerRetries = 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true // fewer commands for an ACL to allow
	return New(redis.NewClient(o)), nil
}

// New returns a store that uses any client, such as one for Sentinel or
// Cluster. Set ContextTimeoutEnabled in the client's options: without it, a
// server that hangs holds up a request for ReadTimeout, whatever
// inbound.Options.Timeout is.
func New(client redis.UniversalClient) *Store {
	return &Store{client, redis.NewScript(script).Hash()}
}

// Close closes the client.
func (s *Store) Close() error { return s.client.Close() }

// Count implements inbound.Store. The time is that of Redis.
func (s *Store) Count(ctx context.Context, r *inbound.Request) (*inbound.Answer, error) {
	line := []any{"evalsha", s.sha, len(r.Limits)}
	for i := range r.Limits {
		line = append(line, r.Key(i))
	}
	line = append(line, r.At, r.Cost)
	for _, limit := range r.Limits {
		line = append(line, limit.Estimate, limit.Calls, limit.Per.Microseconds())
	}
	reply, err := s.send(ctx, line)
	if redis.HasErrorPrefix(err, "NOSCRIPT") { // so it has not run
		line[0], line[1] = "eval", script
		reply, err = s.send(ctx, line)
	}
	if err != nil {
		return nil, err
	}
	if len(reply) != 2+3*len(r.Limits) {
		return nil, fmt.Errorf("redisstore: a reply of %d values for %d limits", len(reply), len(r.Limits))
	}
	a := &inbound.Answer{Admitted: reply[0] == 1, At: reply[1]}
	for s := reply[2:]; len(s) > 0; s = s[3:] {
		a.WindowUsages = append(a.WindowUsages, inbound.WindowUsage{Used: s[0], NextFree: s[1], RetryAt: s[2]})
	}
	return a, nil
}

// once is a command that go-redis must not send again: after a timeout it would
// count twice.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func (s *Store) send(ctx context.Context, line []any) ([]int64, error) {
	cmd := redis.NewCmd(ctx, line...)
	if err := s.client.Process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Int64Slice()
}
