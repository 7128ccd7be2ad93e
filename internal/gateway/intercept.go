package gateway

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// isProxied reports whether a program that uses the gateway as its proxy sends
// the request to another server.
func (g *Gateway) isProxied(r *http.Request) bool {
	isTunnel := r.Method == http.MethodConnect
	if g.options.CA == nil || !isTunnel && r.URL.Host == "" {
		return false
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	isOwn := local != nil && g.knowsHost(r) && strings.HasSuffix(local.String(), ":"+r.URL.Port())
	return isTunnel || !isOwn
}

// serveProxied answers a program that uses the gateway as its proxy. Requests
// to guarded hosts are read, charged and sent on as those to /to/ are; those to
// other hosts pass, and in a tunnel nothing of them is read.
func (g *Gateway) serveProxied(w http.ResponseWriter, r *http.Request) {
	r, problem := g.admitProxy(r)
	if problem != nil {
		problem.write(w)
		return
	}
	c := g.acquire(w)
	if c == nil {
		return
	}
	isTunnel := r.Method == http.MethodConnect
	to := r.URL
	if isTunnel {
		to = &url.URL{Scheme: "https", Host: r.Host}
	}
	isGuarded := c.Table().UpstreamOf(to) != nil
	c.users.Done()
	switch host, port, err := net.SplitHostPort(r.Host); {
	case isTunnel && (err != nil || host == ""):
		newProblem(http.StatusBadRequest, "bad-target", "write CONNECT HOST:PORT").write(w)
	case isTunnel && isGuarded:
		g.intercept(w, r, host, port)
	case isTunnel:
		g.connect(w, r)
	case isGuarded:
		g.direct(w, r, r.URL.Host)
	default:
		passing := httputil.ReverseProxy{Transport: g.base, FlushInterval: flushTime, ErrorLog: discardLog,
			Rewrite:      func(pr *httputil.ProxyRequest) { deleteOwn(pr.Out.Header) },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { unreachable(err).write(w) }}
		passing.ServeHTTP(w, r)
	}
}

func unreachable(err error) *problem {
	return newProblem(http.StatusBadGateway, "unreachable", "%v", err)
}

// direct sends a request that names its host in its own way as those to /to/
// are sent.
func (g *Gateway) direct(w http.ResponseWriter, r *http.Request, authority string) {
	r = r.WithContext(context.WithValue(r.Context(), directKey{}, true))
	to := *r.URL
	to.Path, to.RawPath = "/to/"+authority+r.URL.Path, "/to/"+authority+r.URL.EscapedPath()
	r.URL = &to
	g.proxy(w, r)
}

// connect opens a tunnel to a host that is not guarded.
func (g *Gateway) connect(w http.ResponseWriter, r *http.Request) {
	upstream, err := (&net.Dialer{Timeout: dialTime}).DialContext(r.Context(), "tcp", r.Host)
	if err != nil {
		unreachable(err).write(w)
		return
	}
	defer upstream.Close()
	client, ok := hijack(w)
	if !ok {
		return
	}
	defer client.Close()
	var copies sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, upstream}, {upstream, client}} {
		copies.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // both ends see what is broken
			if half, ok := way[0].(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		})
	}
	copies.Wait()
}

const dialTime = 30 * time.Second

// hijack takes over a connection, and says that the tunnel is open.
func hijack(w http.ResponseWriter) (net.Conn, bool) {
	control := http.NewResponseController(w)
	conn, buffered, err := control.Hijack()
	if err != nil {
		newProblem(http.StatusHTTPVersionNotSupported, "no-tunnel", "CONNECT needs HTTP/1.1").write(w)
		return nil, false
	}
	_ = conn.SetDeadline(time.Time{}) // those of the request's header
	_, err = buffered.WriteString("HTTP/1.1 200 Connection established\r\n\r\n")
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil || buffered.Reader.Buffered() > 0 { // a client must not speak before it is answered
		conn.Close()
		return nil, false
	}
	return conn, true
}

// intercept serves the requests within a tunnel to a guarded host.
func (g *Gateway) intercept(w http.ResponseWriter, r *http.Request, host, port string) {
	conn, ok := hijack(w)
	if !ok {
		return
	}
	session := sessionOf(r)
	authority := host
	if port != "443" {
		authority = net.JoinHostPort(host, port)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if session != nil {
			r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, session))
		}
		defer g.boundBody(w, r)()
		g.direct(w, r, authority)
	})
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.options.CA.leaf(host) }}
	times := newServerTimes()
	inner := &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeader, ErrorLog: discardLog,
		ReadHeaderTimeout: times.header, IdleTimeout: times.idle,
		BaseContext: func(net.Listener) context.Context { return r.Context() },
	}
	l := &oneConn{conn: tls.Server(conn, config), closed: make(chan struct{})}
	inner.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed || state == http.StateHijacked {
			l.Close()
		}
	}
	_ = inner.Serve(l) // ends with the connection
}

// directKey marks requests whose client knows nothing of the gateway: links and
// cookies in their answers stay as they are.
type directKey struct{}

// oneConn is a listener for one connection.
type oneConn struct {
	mu     sync.Mutex
	conn   net.Conn // nil once it is accepted
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// admitProxy returns a request with its session, or why it may not use the
// gateway.
func (g *Gateway) admitProxy(r *http.Request) (*http.Request, *problem) {
	token := proxyToken(r)
	g.mu.Lock()
	session, known := g.sessions[token]
	g.mu.Unlock()
	isOwn := g.options.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(g.options.Token)) == 1
	switch {
	case known:
		return r.WithContext(context.WithValue(r.Context(), sessionKey{}, session)), nil
	case g.options.Token != "" && !isOwn:
		p := newProblem(http.StatusProxyAuthRequired, "unauthorized",
			"the gateway needs its token: HTTPS_PROXY=http://ration:TOKEN@HOST:PORT")
		p.header.Set("Proxy-Authenticate", `Basic realm="ration"`)
		return r, p
	}
	return r, nil
}

// proxyToken returns the token that a client sends to its proxy: the password
// of http://ration:TOKEN@HOST:PORT, or a bearer token.
func proxyToken(r *http.Request) string {
	scheme, value, _ := strings.Cut(r.Header.Get("Proxy-Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(value)
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return ""
	}
	_, token, _ := strings.Cut(string(decoded), ":")
	return token
}
