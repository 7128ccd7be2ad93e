package redisledger_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// banner starts a server that sends a greeting, or answers the first bytes it
// receives, and closes the connection after the client.
func banner(t *testing.T, greeting, answer string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Write([]byte(greeting))
				for buffer := make([]byte, 1024); ; {
					if _, err := conn.Read(buffer); err != nil {
						return
					}
					if _, err := conn.Write([]byte(answer)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestAnotherServerOpensTheAllowance: a server that is not what the URL says is
// a configuration error, which says what answers and what to write.
func TestAnotherServerOpensTheAllowance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, key := issue(t, dir, "ca", nil, nil)
	issue(t, dir, "server", ca, key)
	tlsPort := redistest.FreePort(t)
	server := redistest.Start(t, tlsArgs(file, tlsPort)...)
	secret := redistest.Start(t, "--requirepass", "s3cret-word")
	web, tlsWeb := httptest.NewServer(http.NotFoundHandler()), httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(func() { web.Close(); tlsWeb.Close() })
	socket, err := net.Listen("unix", file("web.sock"))
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.Listener = socket
	other.Start()
	t.Cleanup(other.Close)
	at, tlsAt := web.Listener.Addr().String(), tlsWeb.Listener.Addr().String()
	const trusting = "?insecure_skip_verify=true"
	for _, c := range []struct{ name, url, says string }{
		{"TLS port of a Redis", "redis://127.0.0.1:" + tlsPort, "write rediss instead of redis"},
		{"TLS port of a Redis, as a cluster", "redis+cluster://127.0.0.1:" + tlsPort, "write rediss instead of redis"},
		{"TLS port of a Redis, as a sentinel", "redis+sentinel://127.0.0.1:" + tlsPort + "/main", "write rediss instead of redis"},
		{"Redis without TLS", "rediss://" + server.Addr + trusting, ""},
		{"Redis without TLS, with a password", "rediss://:s3cret-word@" + secret.Addr + trusting, ""},
		{"a silent TLS handshake", "rediss://" + quiet(t) + trusting, "write redis instead of rediss"},
		{"web server", "redis://" + at, `is not a Redis server: it answers "HTTP/1.1 400 Bad Request"; check the host and the port`},
		{"web server, RESP2", "redis://" + at + "?protocol=2", "is not a Redis server"},
		{"web server on a socket", "unix://" + file("web.sock"), "is not a Redis server"},
		{"web server, as a cluster", "redis+cluster://" + at, "is not a Redis server"},
		{"web server, as a sentinel", "redis+sentinel://" + at + "/main", "is not a Redis server"},
		{"TLS web server", "redis://" + tlsAt, ""},
		{"TLS web server, by TLS", "rediss://" + tlsAt + trusting, "is not a Redis server"},
		{"web server, by TLS", "rediss://" + at + trusting, ""},
		{"SSH", "redis://" + banner(t, "SSH-2.0-OpenSSH_9.2\r\n", ""), "SSH-2.0"},
		{"SMTP", "redis://" + banner(t, "220 mail.example ESMTP\r\n", "500 unknown\r\n"), "220 mail.example"},
		{"POP3", "redis://" + banner(t, "+OK ready\r\n", "-ERR unknown\r\n"), "+OK ready"},
		{"IMAP", "redis://" + banner(t, "* OK ready\r\n", "* BAD\r\n"), "* OK ready"},
		{"IRC", "redis://" + banner(t, ":irc.example NOTICE * :hello\r\n", ""), ":irc.example"},
		{"memcached", "redis://" + banner(t, "", "ERROR\r\n"), "ERROR"},
		{"MySQL", "redis://" + banner(t, "J\x00\x00\x00\x0a8.0.36\x00", ""), "is not a Redis server"},
		{"TLS alert", "redis://" + banner(t, "", "\x15\x03\x01\x00\x02\x02\x46"), "write rediss instead of redis"},
		{"an array that is none", "redis://" + banner(t, "", "*<html>\r\n"), "is not a Redis server"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := fresh(t, c.url, nil)
			for range 2 {
				_, err := spend(t, l, "m", 1, day)
				if !errors.Is(err, quota.ErrLedgerConfig) || errors.Is(err, quota.ErrLedgerDown) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v; want ErrLedgerConfig with %q", err, c.says)
				}
				if strings.Contains(err.Error(), "s3cret") {
					t.Fatalf("the password is in %q", err)
				}
			}
		})
	}
}

// TestProtectedModeIsSaidToBeDown: a Redis without a password refuses other
// hosts, and closes the connection before it reads anything. That lasts until
// it is configured, so it is not an outage that opens an allowance.
func TestProtectedModeIsSaidToBeDown(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]time.Duration{"before the first command": 0, "while it is sent": time.Millisecond} {
		for _, scheme := range []string{"redis://", "redis+cluster://"} {
			t.Run(scheme+", "+name, func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						time.Sleep(pause)
						_, _ = conn.Write([]byte("-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user.\r\n"))
						_ = conn.Close()
					}
				}()
				ledger := fresh(t, scheme+l.Addr().String(), nil)
				for range 20 {
					_, err := spend(t, ledger, "m", 1, day)
					if !errors.Is(err, quota.ErrLedgerConfig) || errors.Is(err, quota.ErrLedgerDown) || !strings.Contains(err.Error(), "protected mode") {
						t.Fatalf("%v; want ErrLedgerConfig that names the protected mode", err)
					}
				}
			})
		}
	}
}

// quiet starts a server that is silent until it has a whole line of text, like
// a Redis that receives a TLS handshake without a newline in it.
func quiet(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for buffer := make([]byte, 4096); ; {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					if string(buffer[:n]) == "PING\r\n" {
						_, _ = conn.Write([]byte("+PONG\r\n"))
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestRedisInTroubleIsNeverConfiguration kills and restarts a server while
// eight clients spend on it, with and without TLS. All their errors are outages
// or in doubt.
func TestRedisInTroubleIsNeverConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, key := issue(t, dir, "ca", nil, nil)
	issue(t, dir, "server", ca, key)
	issue(t, dir, "client", ca, key)
	tlsPort := redistest.FreePort(t)
	server := redistest.Start(t, append(tlsArgs(file, tlsPort), "--appendonly", "yes")...)
	urls := []string{server.URL(), "rediss://127.0.0.1:" + tlsPort + "?ca=" + file("ca.pem") + "&cert=" + file("client.pem") + "&key=" + file("client.key")}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l := fresh(t, urls[i%2], nil) // with connections of its own
				for range 3 {
					if _, err := spend(t, l, "m", 1); err != nil && (errors.Is(err, quota.ErrLedgerConfig) ||
						!errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrInDoubt)) {
						t.Errorf("%s: %v; want ErrLedgerDown or ErrInDoubt", urls[i%2], err)
						return
					}
				}
			}
		})
	}
	for range 5 {
		server.Stop()
		server.Restart(t)
		client := raw(t, server)
		do(t, client, "config", "set", "maxclients", "2")
		_ = client.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err()
		_ = client.Do(t.Context(), "config", "set", "maxclients", "10000").Err()
		_ = client.Do(t.Context(), "client", "kill", "type", "normal").Err()
	}
	close(stop)
	wg.Wait()
}

// TestForwarderWithoutItsRedisIsDown: a port forwarder whose server is gone
// accepts connections and closes them at once, like a TLS port that receives
// plain text.
func TestForwarderWithoutItsRedisIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits a second for each of 18 dead servers")
	}
	t.Parallel()
	for name, cut := range map[string]func(*net.TCPConn){
		"closes": func(*net.TCPConn) {},
		"resets": func(c *net.TCPConn) { _ = c.SetLinger(0) },
		"closes after the first bytes": func(c *net.TCPConn) {
			_, _ = c.Read(make([]byte, 10))
		},
	} {
		for _, scheme := range []string{"redis://", "rediss://", "redis+cluster://", "rediss+cluster://"} {
			t.Run(name+" "+scheme, func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				go func() {
					for {
						conn, err := l.Accept()
						if err != nil {
							return
						}
						cut(conn.(*net.TCPConn))
						_ = conn.Close()
					}
				}()
				ledger := fresh(t, scheme+l.Addr().String(), nil)
				if _, err := spend(t, ledger, "m", 1, day); errors.Is(err, quota.ErrLedgerConfig) || !errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrInDoubt) {
					t.Errorf("%v; want ErrLedgerDown", err)
				}
			})
		}
	}
}

// onRecords is a connection that reads one TLS record at a time, as
// OpenSSL does.
type onRecords struct {
	net.Conn
	rest int // bytes that are left of the record
}

func (c *onRecords) Read(p []byte) (int, error) {
	if c.rest == 0 {
		var head [5]byte
		if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
			return 0, err
		}
		c.rest = int(binary.BigEndian.Uint16(head[3:]))
		return copy(p, head[:]), nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.rest)])
	c.rest -= n
	return n, err
}

// TestMissingCertificateIsSaidToBeDown: a server refuses a client without a
// certificate once that has shaken hands, and resets the connection, since it
// has not read all that the client sent. The first command cannot be written.
func TestMissingCertificateIsSaidToBeDown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, key := issue(t, dir, "ca", nil, nil)
	issue(t, dir, "server", ca, key)
	certificate, err := tls.LoadX509KeyPair(file("server.pem"), file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed := make(chan error)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert}
			_ = tls.Server(&onRecords{Conn: conn}, config).Handshake()
			err = conn.Close()
		}
		closed <- err
	}()
	conn, err := redisledger.Dial(t.Context(), l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	_, err = conn.Write([]byte("HELLO\r\n"))
	if err == nil { // the connection's end has not arrived yet
		_, err = conn.Read(make([]byte, 1))
	}
	if says := redisledger.Explain(err); !strings.Contains(says, "certificate required; check the CA, the client's certificate") {
		t.Errorf("%s; want an error of configuration that says that a certificate is required", says)
	}
}
