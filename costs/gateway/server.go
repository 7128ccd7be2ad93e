package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	maxHeader  = 64 << 10
	headerWait = 10 * time.Second // for a request's header to arrive
	idleTime   = 2 * time.Minute  // of a connection without requests
)

// Listen listens on an address: HOST:PORT, where port 0 is any that is free, or
// unix:PATH for a socket that only this user may use. It returns the base URL of
// the server for programs of this host. A socket that no server listens on any
// more is replaced.
func Listen(address string) (listener net.Listener, base string, err error) {
	path, isSocket := strings.CutPrefix(address, "unix:")
	if !isSocket {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return nil, "", fmt.Errorf("listen on %s: %w; give another address with --listen", address, err)
		}
		return listener, "http://" + listener.Addr().String(), nil
	}
	listener, err = listenSocket(path)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, address, nil
}

func listenSocket(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, errors.New("there is another file")
		}
		if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
			c.Close()
			return nil, errors.New("another server listens there")
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
// grace until the requests in flight are answered. It closes the listener.
func Serve(ctx context.Context, l net.Listener, handler http.Handler, grace time.Duration) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerWait, IdleTimeout: idleTime, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
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

// limited bounds how long the answer to a request of the API may take to be
// read, for clients that stall. Proxied answers may stream for as long as they
// like.
func (g *Gateway) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxWait + time.Minute))
		next.ServeHTTP(w, r)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	})
}
