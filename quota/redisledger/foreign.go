package redisledger

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// foreignError reports that the other end of a connection answers but is not
// the server that the URL says. It is a matter of configuration.
type foreignError struct {
	addr string
	what string // what answers there
	fix  string
}

func (e *foreignError) Error() string { return e.addr + " " + e.what }

// probeTime bounds a second look at an address. A server that is up answers a
// few bytes much sooner.
const probeTime = 200 * time.Millisecond

// dialFunc is how go-redis dials.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// watchDial returns dial, and finds out what answers when the other end does
// not speak as expected. Only what is proved becomes a *foreignError: bytes
// that Redis never sends, its refusal of all other hosts, a TLS record from a port that was spoken to in the
// clear, or a plain answer from one that was spoken to in TLS. A connection
// that is cut or silent proves nothing, since a Redis that restarts, or a
// forwarder in front of it, does the same.
func watchDial(dial dialFunc, secure bool) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		switch {
		case err == nil:
			return watch(conn, network, addr, secure), nil
		case secure && unfinished(err) && speaksPlain(ctx, network, addr):
			return nil, &foreignError{addr, "answers without TLS", "write redis instead of rediss, or name its TLS port"}
		}
		return nil, err
	}
}

// unfinished reports whether a TLS handshake ended without an answer. A
// connection that was not even made is not asked for.
func unfinished(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	return !secured(err)
}

// watchedConn looks at the first bytes that arrive on a connection.
type watchedConn struct {
	net.Conn
	network, addr string
	secure        bool
	judged        atomic.Bool // the first bytes came, or the connection's end
	foreign       error       // what they were, if they were not Redis'; set before judged
}

// watchedSocket is a watchedConn of a socket. go-redis looks into sockets for
// idle connections that the server has closed.
type watchedSocket struct {
	*watchedConn
	syscall.Conn
}

func watch(conn net.Conn, network, addr string, secure bool) net.Conn {
	w := &watchedConn{Conn: conn, network: network, addr: addr, secure: secure}
	if socket, ok := conn.(syscall.Conn); ok {
		return &watchedSocket{w, socket}
	}
	return w
}

// Read implements net.Conn. It returns a *foreignError again and again: go-redis
// swallows an error of a read that looks for push messages.
func (c *watchedConn) Read(p []byte) (int, error) {
	if c.judged.Load() {
		if c.foreign != nil {
			return 0, c.foreign
		}
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p)
	if n == 0 && (err == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed)) {
		return n, err // nothing came yet
	}
	c.foreign = c.judge(p[:n])
	c.judged.Store(true)
	if c.foreign != nil {
		return 0, c.foreign
	}
	return n, err
}

// Write implements net.Conn. A server that hangs up at once may have said why
// before, as a Redis in protected mode does: then that is what Write returns.
func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil || c.judged.Load() {
		return n, err
	}
	if c.Conn.SetReadDeadline(time.Now().Add(probeTime)) == nil {
		if _, why := c.Read(make([]byte, 512)); c.judged.Load() && c.foreign != nil {
			return n, why
		}
	}
	return n, err
}

// judge returns a *foreignError if the first bytes of a connection, none when
// it was cut before, prove that the other end is not as the URL says.
func (c *watchedConn) judge(first []byte) error {
	const tlsInTheClear = "write rediss instead of redis"
	switch {
	case len(first) == 0 && !c.secure && speaksTLS(c.network, c.addr):
		return &foreignError{c.addr, "speaks TLS", tlsInTheClear}
	case bytes.HasPrefix(first, []byte("-DENIED")):
		return &foreignError{c.addr, "is a Redis in protected mode, which serves its own host only", "set a password there (requirepass), and give it here"}
	case len(first) == 0 || beginsReply(first):
		return nil
	case !c.secure && tlsRecord(first):
		return &foreignError{c.addr, "speaks TLS", tlsInTheClear}
	}
	line, _, _ := bytes.Cut(first, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	const shown = 40
	return &foreignError{c.addr, fmt.Sprintf("is not a Redis server: it answers %q", line[:min(len(line), shown)]), "check the host and the port"}
}

// beginsReply reports whether data may be the beginning of what Redis answers
// first. The first command of a connection is HELLO, whose answer is a map, an
// array or an error.
func beginsReply(data []byte) bool {
	switch data[0] {
	case '-':
		return true
	case '%', '*':
		count, _, _ := bytes.Cut(data[1:], []byte("\r"))
		return !bytes.ContainsFunc(count, func(r rune) bool { return r < '0' || r > '9' })
	}
	return false
}

// tlsRecord reports whether data begins as a handshake or an alert of TLS does.
func tlsRecord(data []byte) bool {
	return len(data) > 1 && (data[0] == 0x15 || data[0] == 0x16) && data[1] == 3
}

// speaksTLS reports whether an address answers a TLS handshake, whatever it
// then makes of it.
func speaksTLS(network, addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	first := &firstBytes{Conn: conn}
	// Nothing is sent over this connection, so the certificate does not matter.
	_ = tls.Client(first, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	return tlsRecord(first.data)
}

// firstBytes is a connection that keeps what its first read returned.
type firstBytes struct {
	net.Conn
	data []byte
}

// Read implements net.Conn.
func (c *firstBytes) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if len(c.data) < 2 {
		c.data = append(c.data, p[:n]...)
	}
	return n, err
}

// speaksPlain reports whether an address answers a PING without TLS as Redis
// does, with or without a password.
func speaksPlain(ctx context.Context, network, addr string) bool {
	// The time of the dial that failed may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if conn.SetDeadline(deadline) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, _ := conn.Read(answer)
	for _, known := range []string{"+PONG", "-NOAUTH", "-LOADING", "-ERR max number of clients", "-DENIED", "-MASTERDOWN", "-BUSY", "-MISCONF"} {
		if bytes.HasPrefix(answer[:n], []byte(known)) {
			return true
		}
	}
	return false
}
