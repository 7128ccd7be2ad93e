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

// client returns a client for the address. It follows MOVED and ASK but retries
// nothing: Ledger.run does that.
func (a *address) client() (redis.UniversalClient, error) {
	config, err := a.tlsConfig()
	if err != nil {
		return nil, err
	}
	dial := redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: config})
	o := a.UniversalOptions
	o.TLSConfig, o.Dialer, o.DialTimeout = config, dial, dialTimeout
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.ContextTimeoutEnabled = patience, patience, patience, true
	o.MaxRetries, o.DialerRetries = -1, 1
	// Fewer commands for an ACL to allow.
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch a.kind {
	case cluster:
		options := o.Cluster()
		options.DisableRoutingPolicies = true // else it sends COMMAND
		options.NewClient = func(o *redis.Options) *redis.Client { return traced(redis.NewClient(o)) }
		return redis.NewClusterClient(options), nil
	case sentinels:
		master := &master{dial: dial}
		o.Dialer = master.dialing
		client := redis.NewFailoverClient(o.Failover())
		client.AddHook(master)
		return traced(client), nil
	}
	options := o.Simple()
	if a.kind == socket {
		options.Network = "unix"
	}
	return traced(redis.NewClient(options)), nil
}

// passHook is a redis.Hook that changes nothing.
type passHook struct{}

// DialHook implements redis.Hook.
func (passHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (passHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (passHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// tracer is a hook that returns an *unsentError for commands that failed before
// they were sent, for lack of a connection.
type tracer struct{ passHook }

// traced adds a tracer to the client of one server.
func traced(client *redis.Client) *redis.Client {
	client.AddHook(tracer{})
	return client
}

// tracedCommand notes whether the command was written.
type tracedCommand struct {
	redis.Cmder
	sent bool
}

// Args implements redis.Cmder. A client of one server calls it only to write
// the command.
func (c *tracedCommand) Args() []any {
	c.sent = true
	return c.Cmder.Args()
}

// ProcessHook implements redis.Hook.
func (tracer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c := &tracedCommand{Cmder: cmd}
		err := next(ctx, c)
		switch {
		case err == nil || errors.Is(err, redis.ErrClosed):
			return err
		case !c.sent:
			return &unsentError{err}
		case cmd.Name() == "hello" && (tooManyClients(err.Error()) || hasCode(err.Error(), "DENIED")):
			// go-redis would take this for a server without HELLO and continue.
			return &unsentError{errors.New(err.Error())}
		}
		return err
	}
}

// reloadSlots reloads a cluster's slots if the error means that they have
// changed or that a node fails, and returns the error. go-redis does so only if
// it may retry.
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
	passHook
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
	if answer, ok := ctx.Value(sentinelAnswerKey{}).(*sentinelAnswer); ok {
		answer.addr = addr
		return conn, err
	}
	if err != nil {
		return nil, err
	}
	return sentinelConn{conn}, nil
}

// sentinelConn is a connection with deadlines that are at most sentinelTimeout
// away.
type sentinelConn struct{ net.Conn }

// SetReadDeadline implements net.Conn.
func (c sentinelConn) SetReadDeadline(at time.Time) error {
	if latest := time.Now().Add(sentinelTimeout); at.After(latest) {
		at = latest
	}
	return c.Conn.SetReadDeadline(at)
}

// DialHook implements redis.Hook.
func (m *master) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		answer := &sentinelAnswer{}
		conn, err := next(context.WithValue(ctx, sentinelAnswerKey{}, answer), network, addr)
		known := m.known.Load()
		switch {
		case err == nil:
			m.known.Store(&answer.addr)
			return conn, nil
		case answer.addr != "" || known == nil || classify(err) == config:
			return nil, err
		}
		// The sentinels have used up the time.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
		defer cancel()
		return m.dial(ctx, network, *known)
	}
}
