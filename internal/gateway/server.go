package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

const maxHeader = 64 << 10

// serverTimes bounds what a connection can hold up without a request.
type serverTimes struct {
	header time.Duration // for a request's header to arrive
	idle   time.Duration // of a connection without requests
	write  time.Duration // of an HTTP/2 connection to which nothing can be written
}

func newServerTimes() serverTimes {
	return serverTimes{header: 10 * time.Second, idle: 2 * time.Minute, write: time.Minute}
}

// Listen listens on an address: HOST:PORT, where port 0 is any that is free, or
// unix:PATH for a socket that only this user may use. It returns the base URL
// of the server for programs of this host. A socket that no server listens on
// any more is replaced.
func Listen(address string) (listener net.Listener, base string, err error) {
	if err := CheckAddress(address); err != nil {
		return nil, "", fmt.Errorf("listen on %w", err)
	}
	path, isSocket := strings.CutPrefix(address, "unix:")
	if isSocket {
		folder := filepath.Dir(path)
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return nil, "", fmt.Errorf("listen on %s: no folder %s; make it with mkdir -p %s", address, folder,
				human.ShellQuote(folder))
		}
		listener, err = listenSocket(path)
		base = address
	} else {
		network := "tcp"
		if addr, err := netip.ParseAddrPort(address); err == nil && addr.Addr().Is4() {
			network = "tcp4" // 0.0.0.0 would listen on IPv6 too
		}
		if listener, err = net.Listen(network, address); err == nil {
			base = "http://" + listener.Addr().String()
		}
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		err = failed.Err // without the address
	}
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w; give another address with --listen", address, err)
	}
	return listener, base, nil
}

// CheckAddress returns an error if an address is not one that Listen takes. It
// does not listen there.
func CheckAddress(address string) error {
	if path, isSocket := strings.CutPrefix(address, "unix:"); isSocket {
		if path == "" {
			return errors.New("unix: needs a path, as in unix:/run/ration/gateway.sock")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s: write HOST:PORT or unix:PATH", human.Name(address))
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%s: %q is not a port; write a number up to 65535", human.Name(address), port)
	}
	return nil
}

func listenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, errors.New("there is another file")
		}
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			c.Close()
			return nil, errors.New("another server listens there")
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

// NeedsToken reports whether programs of other hosts, or of other users, can
// reach a listener.
func NeedsToken(l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}

// Serve serves handler on a listener until ctx ends, and then waits for at most
// grace until the requests in flight are answered; those that wait for units
// are refused then. It closes the listener.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration) error {
	return serve(ctx, l, handler, grace, newServerTimes())
}

func serve(ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration, times serverTimes) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	calls := quota.WithRequestOptions(context.Background(), func(t *quota.RequestOptions) {
		t.WaitUntil, t.Uninterrupted = ctx.Done(), true
	})
	server := &http.Server{Handler: handler, Protocols: protocols, MaxHeaderBytes: maxHeader,
		BaseContext:       func(net.Listener) context.Context { return calls },
		ReadHeaderTimeout: times.header, IdleTimeout: times.idle, ErrorLog: log.New(panicLog{}, "", 0),
		HTTP2: &http.HTTP2Config{WriteByteTimeout: times.write, SendPingTimeout: times.idle, PingTimeout: times.write}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(late); err != nil {
		return server.Close()
	}
	return nil
}

// panicLog logs the panics of handlers. It drops the other messages of
// net/http, which are about broken connections.
type panicLog struct{}

func (panicLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("panic serving")) {
		slog.Error("ration: " + string(bytes.TrimSpace(line)))
	}
	return len(line), nil
}
