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

// foreignError reports that what answers at an address is not the server that
// the URL names. It is an error of configuration.
type foreignError struct {
	addr string
	what string // what answers at addr
	fix  string
}

func (e *foreignError) Error() string { return e.addr + " " + e.what }

// secondTimeout is the timeout of a second connection to an address. A server
// that is up answers a few bytes much faster.
const secondTimeout = 200 * time.Millisecond

// dialFunc is how go-redis dials.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// checkDial wraps dial to return a *foreignError when the other end proves not
// to be the server that the URL names: by bytes that Redis never sends, the
// error of protected mode, a TLS record on a plain connection, or a plain
// answer to a TLS handshake. A connection that closes or stays silent proves
// nothing: a restarting Redis or a proxy in front of it does the same.
func checkDial(dial dialFunc, secure bool) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		switch {
		case err == nil:
			return checkConn(conn, network, addr, secure), nil
		case secure && unfinished(err) && speaksPlain(ctx, network, addr):
			return nil, &foreignError{addr, "answers without TLS", "write redis instead of rediss, or name its TLS port"}
		}
		return nil, err
	}
}

// unfinished reports whether a TLS handshake ended without an answer, on a
// connection that was established.
func unfinished(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false
	}
	return !isTLSFailure(err)
}

// checkedConn judges the first bytes that arrive on a connection.
type checkedConn struct {
	net.Conn
	network, addr string
	secure        bool
	timeout       time.Duration // the longest that a deadline may be away, or 0
	judged        atomic.Bool   // the first bytes, or the end, arrived
	foreign       error         // what they prove, or nil; set before judged
}

// checkedSocket is a checkedConn of a socket. go-redis needs a syscall.Conn to
// find idle connections that the server has closed.
type checkedSocket struct {
	*checkedConn
	syscall.Conn
}

func checkConn(conn net.Conn, network, addr string, secure bool) net.Conn {
	w := &checkedConn{Conn: conn, network: network, addr: addr, secure: secure}
	if socket, ok := conn.(syscall.Conn); ok {
		return &checkedSocket{w, socket}
	}
	return w
}

// SetReadDeadline implements net.Conn.
func (c *checkedConn) SetReadDeadline(at time.Time) error {
	return c.Conn.SetReadDeadline(c.sooner(at))
}

// SetWriteDeadline implements net.Conn.
func (c *checkedConn) SetWriteDeadline(at time.Time) error {
	return c.Conn.SetWriteDeadline(c.sooner(at))
}

// sooner returns a deadline, or that of the timeout if it is sooner.
func (c *checkedConn) sooner(at time.Time) time.Time {
	if c.timeout == 0 || at.IsZero() {
		return at
	}
	if latest := time.Now().Add(c.timeout); at.After(latest) {
		return latest
	}
	return at
}

// Read implements net.Conn. It returns what the first bytes prove on every
// call, since go-redis drops the error of a read for push messages.
func (c *checkedConn) Read(p []byte) (int, error) {
	if c.judged.Load() {
		if c.foreign != nil {
			return 0, c.foreign
		}
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p)
	isOurs := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed)
	if n == 0 && (err == nil || isOurs) {
		return n, err // nothing has arrived yet
	}
	if c.foreign = c.judge(p[:n]); n == 0 && isTLSFailure(err) {
		c.foreign = err
	}
	c.judged.Store(true)
	if c.foreign != nil {
		return 0, c.foreign
	}
	return n, err
}

// Write implements net.Conn. If a server closed the connection after
// saying why, Write returns that: a Redis in protected mode does so, and
// one that refuses the client's certificate, which from TLS 1.3 on comes
// after the handshake.
func (c *checkedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil || c.judged.Load() {
		return n, err
	}
	if c.Conn.SetReadDeadline(time.Now().Add(secondTimeout)) == nil {
		if _, why := c.Read(make([]byte, 512)); c.judged.Load() && c.foreign != nil {
			return n, why
		}
	}
	return n, err
}

// judge returns a *foreignError if the first bytes of a connection (none if it
// closed before) prove that the other end is not the server that the URL names.
func (c *checkedConn) judge(first []byte) error {
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

// beginsReply reports whether data may begin Redis's first answer. That is the
// answer to HELLO: a map, an array or an error.
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

// tlsRecord reports whether data begins with a TLS handshake or alert.
func tlsRecord(data []byte) bool {
	if len(data) < 2 {
		return false
	}
	const alert, handshake = 0x15, 0x16
	isRecord := data[0] == alert || data[0] == handshake
	return isRecord && data[1] == 3
}

// speaksTLS reports whether an address answers a TLS handshake, even with
// an error.
func speaksTLS(network, addr string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), secondTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	first := &firstBytes{Conn: conn}
	// Nothing is sent on this connection, so the certificate does not matter.
	_ = tls.Client(first, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	return tlsRecord(first.data)
}

// firstBytes is a connection that keeps the first bytes that it read.
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
	// The deadline of the failed dial may have passed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), secondTimeout)
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
