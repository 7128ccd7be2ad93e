package redisledger

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// dialTimeout leaves time for the command within one try.
	dialTimeout = patience / 3
	// sentinelTimeout allows for a sentinel that hangs within one dial. go-redis
	// has one timeout for sentinels and the master, which may be busy for longer.
	sentinelTimeout = patience / 4
)

// client returns a client for the address that counts its connections in dials.
// It follows MOVED and ASK but retries nothing: retries are the scriptRunner's.
func (a *address) client(dials *atomic.Int64, patience time.Duration) (redis.UniversalClient, error) {
	config, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	dial := checkDial(redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: config}), config != nil)
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // fewer commands for an ACL to allow
	switch a.kind {
	case cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: a.hosts, Username: a.user, Password: a.password, Protocol: a.protocol, TLSConfig: config, Dialer: dial,
			DialTimeout: dialTimeout, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
			ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
			DisableIdentity: true, MaintNotificationsConfig: quiet, DisableRoutingPolicies: true, // else it sends COMMAND
			NewClient: func(o *redis.Options) *redis.Client {
				node := redis.NewClient(o)
				node.AddHook(tracer{dials})
				return node
			},
		}), nil
	case sentinels:
		master := &master{dial: dial}
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: a.master, SentinelAddrs: a.hosts, SentinelUsername: a.sentinelUser, SentinelPassword: a.sentinelPassword,
			Username: a.user, Password: a.password, DB: a.db, Protocol: a.protocol, TLSConfig: config, Dialer: master.dialing,
			DialTimeout: dialTimeout, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
			ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true,
		})
		client.AddHook(master)
		client.AddHook(tracer{dials})
		return client, nil
	}
	options := &redis.Options{
		Addr: a.hosts[0], Username: a.user, Password: a.password, DB: a.db, Protocol: a.protocol, TLSConfig: config, Dialer: dial,
		DialTimeout: dialTimeout, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DisableIdentity: true, MaintNotificationsConfig: quiet,
	}
	if a.kind == socket {
		options.Network = "unix"
	}
	client := redis.NewClient(options)
	client.AddHook(tracer{dials})
	return client, nil
}

// tracer is a hook that returns an *unsentError for commands that failed before
// they were sent, for lack of a connection.
type tracer struct {
	dials *atomic.Int64 // counts the connections that were made
}

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

// DialHook implements redis.Hook.
func (t tracer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			t.dials.Add(1)
		}
		return conn, err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (tracer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (tracer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c := &traced{Cmder: cmd}
		err := next(ctx, c)
		switch {
		case err == nil || errors.Is(err, redis.ErrClosed):
			return err
		case !c.sent:
			return &unsentError{err}
		case cmd.Name() == "hello" && tooManyClients(err.Error()):
			// go-redis would take this for a server without HELLO and continue.
			return &unsentError{errors.New(err.Error())}
		}
		return err
	}
}

// process sends one command to the client.
func (l *Ledger) sendCommand(ctx context.Context, cmd redis.Cmder) error {
	return l.reloadSlots(ctx, l.client.Process(ctx, cmd))
}

// reloadSlots reloads a cluster's slots if the error means that they have
// changed or that a node fails, and returns the error. go-redis does so only if
// it may retry. A client type around the cluster's would have four thousand
// methods to compile.
func (l *Ledger) reloadSlots(ctx context.Context, err error) error {
	c, ok := l.client.(*redis.ClusterClient)
	if !ok || err == nil {
		return err
	}
	answer, ok := errors.AsType[redis.Error](err)
	if !ok {
		c.ReloadState(ctx)
		return err
	}
	switch code, _, _ := strings.Cut(answer.Error(), " "); code {
	case "CLUSTERDOWN":
		c.ReloadState(ctx)
	case "MOVED", "ASK": // more often than go-redis follows: slots are being moved
		c.ReloadState(ctx)
		return &unsentError{errors.New(answer.Error())}
	}
	return err
}

// master remembers the master's address, for when no sentinel answers. It is a
// hook and the dialer of the client.
type master struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	known atomic.Pointer[string]
}

// sentinelAnswer is the address that the sentinels gave during one dial, empty
// if none answered. It is in the context of the dial, but not of those to
// sentinels.
type sentinelAnswer struct{ addr string }

type sentinelAnswerKey struct{}

// dialing dials a sentinel, or the master at the address they gave.
func (m *master) dialing(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := m.dial(ctx, network, addr)
	if t, ok := ctx.Value(sentinelAnswerKey{}).(*sentinelAnswer); ok {
		t.addr = addr
		return conn, err
	}
	switch c := conn.(type) {
	case *checkedConn:
		c.timeout = sentinelTimeout
	case *checkedSocket:
		c.timeout = sentinelTimeout
	}
	return conn, err
}

// DialHook implements redis.Hook.
func (m *master) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		t := &sentinelAnswer{}
		conn, err := next(context.WithValue(ctx, sentinelAnswerKey{}, t), network, addr)
		known := m.known.Load()
		switch {
		case err == nil:
			m.known.Store(&t.addr)
			return conn, nil
		case t.addr != "" || known == nil || classify(err) == config:
			return nil, err
		}
		// The sentinels have used up the time.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		return m.dial(ctx, network, *known)
	}
}

// ProcessHook implements redis.Hook.
func (*master) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*master) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
