package redisledger

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	dialTimeout     = patience / 3 // leaves time for the command within one try
	sentinelTimeout = patience / 4 // allows for a sentinel that hangs within one dial
)

// client returns a client for the address. It follows MOVED and ASK but retries
// nothing: Ledger.run does that.
func (a *address) client() (redis.UniversalClient, error) {
	config, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	o := a.UniversalOptions
	o.TLSConfig, o.DialTimeout = config, dialTimeout
	o.Dialer = redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: config})
	o.ReadTimeout = patience
	o.WriteTimeout = patience
	o.PoolTimeout = patience
	o.ContextTimeoutEnabled = true
	o.MaxRetries, o.DialerRetries = -1, 1
	// Fewer commands for an ACL to allow.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	var client *redis.Client
	switch a.kind {
	case cluster:
		options := o.Cluster()
		options.DisableRoutingPolicies = true // else it sends COMMAND
		options.NewClient = func(o *redis.Options) *redis.Client {
			node := redis.NewClient(o)
			node.AddHook(&hook{})
			return node
		}
		return redis.NewClusterClient(options), nil
	case sentinels:
		options := o.Failover()
		client = redis.NewFailoverClient(options)
		options.ReadTimeout = sentinelTimeout // of sentinels, which it has yet to dial, and not of the master
		client.AddHook(&hook{dial: o.Dialer})
		return client, nil
	}
	options := o.Simple()
	if a.kind == socket {
		options.Network = "unix"
	}
	client = redis.NewClient(options)
	client.AddHook(&hook{})
	return client, nil
}

// hook is a redis.Hook of a client of one server. It returns an *unsentError
// for commands that failed before they were sent, for lack of a connection.
// With sentinels it remembers the master, for when none of them answers.
type hook struct {
	dial   func(ctx context.Context, network, addr string) (net.Conn, error) // nil without sentinels
	master atomic.Pointer[string]
}

// DialHook implements redis.Hook.
func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if h.dial == nil {
			return conn, err
		}
		if err == nil {
			master := conn.RemoteAddr().String()
			h.master.Store(&master)
			return conn, nil
		}
		known := h.master.Load()
		if known == nil || classify(err) == config || !strings.Contains(err.Error(), "all sentinels") {
			return nil, err
		}
		// the sentinels have used up the time
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		if conn, dialErr := h.dial(ctx, network, *known); dialErr == nil {
			return conn, nil
		}
		return nil, err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (*hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (*hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c := &traced{Cmder: cmd}
		err := next(ctx, c)
		switch {
		case err == nil || errors.Is(err, redis.ErrClosed):
			return err
		case !c.sent:
			return &unsentError{err}
		case cmd.Name() == "hello" && (isFull(err) || hasCode(err.Error(), "DENIED")):
			// go-redis would take this for a server without HELLO and continue.
			return &unsentError{errors.New(err.Error())}
		}
		return err
	}
}

func isFull(err error) bool { return strings.Contains(err.Error(), "max number of clients") }

// traced is a command that notes whether it was written.
type traced struct {
	redis.Cmder
	sent bool
}

// Args implements redis.Cmder. A client of one server calls it only to write
// the command.
func (c *traced) Args() []any {
	c.sent = true
	return c.Cmder.Args()
}

// reloadSlots reloads a cluster's slots if the error means that they have
// changed or that a node fails, and returns the error. go-redis does so only if
// it may retry.
func (l *Ledger) reloadSlots(ctx context.Context, err error) error {
	c, ok := l.client.(*redis.ClusterClient)
	if !ok || err == nil {
		return err
	}
	answer, answered := errors.AsType[redis.Error](err)
	isMoved := answered && (hasCode(answer.Error(), "MOVED") || hasCode(answer.Error(), "ASK"))
	if !answered || isMoved || hasCode(answer.Error(), "CLUSTERDOWN") {
		c.ReloadState(ctx)
	}
	if isMoved { // more often than go-redis follows: slots are being moved
		return &unsentError{errors.New(answer.Error())}
	}
	return err
}
