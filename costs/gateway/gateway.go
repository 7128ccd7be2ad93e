// Package gateway is an HTTP server through which programs in any language are
// guarded. It has two doors to one guard: an API that decides before a program
// makes a call by itself, and a reverse proxy that makes the call:
//
//	POST   /v1/spend                  may I? 200 with a grant, or 429
//	POST   /v1/grants/{grant}/report  what the upstream answered
//	POST   /v1/grants/{grant}/settle  what the call really cost
//	POST   /v1/grants/{grant}/refund  it was never sent
//	GET    /v1/cooldowns              and POST to set one, DELETE to lift it
//	ANY    /to/{host}/{path}          the upstream, guarded
//	GET    /healthz, /readyz
//
// The document at /v1/openapi.json describes all of it.
//
// # Who may use it
//
// On a loopback address or a Unix socket every program of the host may, unless
// Options.Token is set. A request must name this host in its Host header, and
// must not come from a web page of another site; so a page that a user of the
// host visits cannot spend.
package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// Options configures New. A nil *Options is the default.
type Options struct {
	// Token, if it is set, is required of every request, as Authorization:
	// Bearer TOKEN or in the header Ration-Token.
	Token string

	// Hosts are names of this server that requests may have in their Host
	// header, beside those of loopback addresses.
	Hosts []string

	// MaxWait is the longest wait of a proxied request that has no header
	// Ration-Max-Wait. 0 does not wait.
	MaxWait time.Duration

	// Endpoint is the base URL of a server that takes the place of the hosts
	// of Upstream, as in costs.Table.WithEndpoint; "" for none.
	Endpoint string

	// Base sends the proxied requests. nil is a transport like
	// http.DefaultTransport that leaves encodings alone.
	Base http.RoundTripper

	// Caller returns a caller as the budgets of a table write it, or an error
	// for one that is probably a mistake, such as an unknown lane. nil accepts
	// every caller.
	Caller func(*costs.Table, quota.Caller) (quota.Caller, error)

	// Documents are read at /v1/NAME.
	Documents map[string]Document
}

// Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	options Options
	base    http.RoundTripper
	mux     *http.ServeMux

	mu       sync.Mutex
	current  *connected                    // nil before the first Use and after Close
	clients  map[*client.Client]*connected // that Use was given and Release was not
	sessions map[string]*Session           // by token
}

// connected is a client with the requests that use it.
type connected struct {
	*client.Client
	proxied http.RoundTripper
	users   sync.WaitGroup
}

// New returns a Gateway, which answers 503 until Use has given it a client.
func New(o *Options) *Gateway {
	g := &Gateway{clients: map[*client.Client]*connected{}, sessions: map[string]*Session{}, mux: http.NewServeMux()}
	if o != nil {
		g.options = *o
	}
	if g.base = g.options.Base; g.base == nil {
		g.base = newBase()
	}
	g.routes()
	return g
}

// Use makes the gateway use c from now on. Requests that have begun go on with the
// client before it; see Release. A nil c leaves none.
func (g *Gateway) Use(c *client.Client) {
	var next *connected
	if c != nil {
		next = &connected{Client: c}
		next.proxied = c.NewTransport(func(t *quota.Transport) { t.Base, t.MaxWait = g.base, g.options.MaxWait })
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current = next
	if c != nil {
		g.clients[c] = next
	}
}

// Release makes the gateway not use c any more. It returns when no request uses c,
// which may then be closed.
func (g *Gateway) Release(c *client.Client) {
	g.mu.Lock()
	used := g.clients[c]
	delete(g.clients, c)
	if used != nil && g.current == used {
		g.current = nil
	}
	g.mu.Unlock()
	if used != nil {
		used.users.Wait()
	}
}

// acquire returns the client in use, and what ends its use, or nil.
func (g *Gateway) acquire() (*connected, func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil {
		return nil, func() {}
	}
	g.current.users.Add(1)
	return g.current, g.current.users.Done
}

// handler answers a request with the client in use.
type handler func(w http.ResponseWriter, r *http.Request, c *connected)

func (g *Gateway) routes() {
	api := func(pattern string, handle handler) { g.mux.Handle(pattern, g.limited(g.withClient(handle))) }
	api("POST /v1/spend", g.spend)
	api("POST /v1/grants/{grant}/report", g.report)
	api("POST /v1/grants/{grant}/settle", g.settle)
	api("POST /v1/grants/{grant}/refund", g.refund)
	api("GET /v1/cooldowns", g.listCooldowns)
	api("POST /v1/cooldowns", g.setCooldown)
	api("DELETE /v1/cooldowns", g.liftCooldown)
	for name, read := range g.options.Documents {
		g.HandleDocument("GET /v1/"+name, read)
	}
	api("GET /readyz", g.ready)
	g.mux.Handle("/to/", g.withClient(g.proxy))
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, map[string]bool{"ok": true}) })
	g.mux.HandleFunc("GET /v1/openapi.json", serveOpenAPI)
	g.mux.HandleFunc("/v1/", notFound)
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, problem := g.admit(r)
	if problem != nil {
		problem.write(w)
		return
	}
	if _, pattern := g.mux.Handler(r); pattern == "" { // ServeMux would answer in plain text
		if allowed := g.methodsOf(r); len(allowed) > 0 {
			w.Header()["Allow"] = allowed
			newProblem(http.StatusMethodNotAllowed, "method-not-allowed", "%s is not among the methods of %s", r.Method, r.URL.Path).write(w)
			return
		}
		notFound(w, r)
		return
	}
	g.mux.ServeHTTP(w, r)
}

// HandleDocument adds a document at a pattern of http.ServeMux.
func (g *Gateway) HandleDocument(pattern string, read Document) {
	g.mux.Handle(pattern, g.limited(g.withClient(read.answer)))
}

// Handle adds a page of another package's, behind the same checks.
func (g *Gateway) Handle(pattern string, h http.Handler) { g.mux.Handle(pattern, h) }

func (g *Gateway) methodsOf(r *http.Request) (methods []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := g.mux.Handler(other); pattern != "" && pattern != "/v1/" {
			methods = append(methods, method)
		}
	}
	return methods
}

func notFound(w http.ResponseWriter, r *http.Request) {
	newProblem(http.StatusNotFound, "not-found", "there is nothing at %s; see /v1/openapi.json", r.URL.Path).write(w)
}

func (g *Gateway) withClient(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, done := g.acquire()
		defer done()
		if c == nil {
			w.Header().Set("Retry-After", "1")
			newProblem(http.StatusServiceUnavailable, "starting", "the gateway has no ledger yet, or is ending").write(w)
			return
		}
		handle(w, r, c)
	})
}

// ready answers whether the ledger does.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request, c *connected) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	for _, account := range c.Table().Accounts() {
		if _, _, err := c.Guard().Now(ctx, account); err != nil {
			problemOf(err).write(w)
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
}

const readyTimeout = 5 * time.Second
