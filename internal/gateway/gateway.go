// Package gateway is an HTTP server through which programs in any language are
// guarded. It has two ways to one guard: an API that decides before a program
// makes a call by itself, and a reverse proxy that makes the call:
//
//	POST   /v1/spend                  may I? 200 with a grant, or 429
//	POST   /v1/grants/{grant}/report  what the upstream answered
//	POST   /v1/grants/{grant}/settle  what the call really cost
//	POST   /v1/grants/{grant}/refund  it was never sent
//	POST   /v1/limit                  may a client of yours?
//	GET    /v1/cooldowns              and POST to set one, DELETE to lift it
//	ANY    /to/{host}/{path}          the upstream, guarded
//	GET    /healthz, /readyz
//
// The document at /v1/openapi.json describes all of it. In a request to /to/,
// host is the upstream's, with its port if it has one, and path and query are
// what the upstream gets, byte for byte. The request is charged as one of
// package client would be. Location and Link headers that lead to a guarded
// host lead back to the gateway, and cookies belong to /to/{host}.
//
// # What a proxied request keeps
//
// Bodies, trailers and encodings pass unchanged, in both directions and at
// the same time. Of the encodings that a client accepts, only those are asked
// for in which the gateway can read an error: gzip and none. Headers that
// begin with Ration- are for the gateway and do not pass. Nor do upgrades,
// such as those to WebSocket, or TRACE, which would show a credential that
// the gateway adds.
//
// # Timeouts
//
// A request's header must arrive within 10 seconds, its body for the API within
// 30. A proxied request may last for hours, and ends when no byte of it has
// moved for 6 minutes. An upstream must begin its answer within 5.
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
	"path"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
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

	// CA lets programs use the gateway as their HTTP proxy: it reads the
	// requests to guarded hosts, with certificates of this authority. nil
	// refuses CONNECT.
	CA *CA

	// Documents are read at /v1/NAME.
	Documents map[string]Document
}

// limits bounds what a client or an upstream can hold up.
type limits struct {
	body   time.Duration // for the body of a request to the API to arrive
	answer time.Duration // for 64 KiB of the answer of the API to be read
	stall  time.Duration // without progress of a proxied request
	drain  time.Duration // for the rest of a body that nothing reads
}

// newLimits returns the limits in force. stall is more than headerTime, so that
// the latter says what is wrong.
func newLimits() limits {
	return limits{body: 30 * time.Second, answer: 30 * time.Second, stall: headerTime + time.Minute,
		drain: 5 * time.Second}
}

// Gateway is an http.Handler. It is safe for concurrent use.
type Gateway struct {
	options Options
	limits  limits
	base    http.RoundTripper
	mux     *http.ServeMux
	page    http.Handler // nil: there is none; see HandlePage

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
	g := &Gateway{limits: newLimits(), clients: map[*client.Client]*connected{}, sessions: map[string]*Session{},
		mux: http.NewServeMux()}
	if o != nil {
		g.options = *o
	}
	if g.base = g.options.Base; g.base == nil {
		g.base = newBase()
	}
	g.routes()
	return g
}

// Use makes the gateway use c from now on. Requests that have begun go on with
// the client before it; see Release. A nil c leaves none.
func (g *Gateway) Use(c *client.Client) {
	var next *connected
	if c != nil {
		next = &connected{Client: c}
		next.proxied = c.NewTransport(func(t *quota.Transport) {
			t.Base, t.MaxWait = g.base, g.options.MaxWait
			read := t.Feedback
			t.Feedback = func(call quota.Call, resp *http.Response) quota.Verdict {
				verdict := read(call, resp)
				session := sessionOf(resp.Request)
				session.recordGrant()
				session.recordVerdict(next, call, &verdict)
				return verdict
			}
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current = next
	if c != nil {
		g.clients[c] = next
	}
}

// Release detaches c from the gateway. It returns when no request uses c, which
// may then be closed. A streaming answer does not use c.
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

// Acquire returns the client in use, which stays open until release is called,
// or nil if there is none. Call release promptly: Gateway.Release blocks until
// then.
func (g *Gateway) Acquire() (c *client.Client, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current == nil {
		return nil, func() {}
	}
	g.current.users.Add(1)
	return g.current.Client, g.current.users.Done
}

// acquire returns the client in use. The caller must end its use by users.Done.
// If there is none, it answers so and returns nil.
func (g *Gateway) acquire(w http.ResponseWriter) *connected {
	g.mu.Lock()
	c := g.current
	if c != nil {
		c.users.Add(1)
	}
	g.mu.Unlock()
	if c == nil {
		w.Header().Set("Retry-After", "1")
		newProblem(http.StatusServiceUnavailable, "starting", "the gateway has no ledger yet, or is ending").write(w)
	}
	return c
}

// handler answers a request with the client in use.
type handler func(w http.ResponseWriter, r *http.Request, c *connected)

// answerer returns the document that answers a request, or why there is none;
// w is for headers.
type answerer func(w http.ResponseWriter, r *http.Request, c *connected) (any, error)

func (g *Gateway) withAnswer(answer answerer) http.Handler {
	return g.withClient(func(w http.ResponseWriter, r *http.Request, c *connected) {
		document, err := answer(w, r, c)
		if err != nil {
			problemOf(err).write(w)
			return
		}
		g.writeJSON(w, http.StatusOK, document)
	})
}

func (g *Gateway) routes() {
	api := func(pattern string, answer answerer, parameters ...string) {
		g.mux.Handle(pattern, withParameters(parameters, g.withAnswer(answer)))
	}
	api("POST /v1/spend", g.spend)
	api("POST /v1/grants/{grant}/report", g.report)
	api("POST /v1/grants/{grant}/settle", g.settle)
	api("POST /v1/grants/{grant}/refund", g.refund)
	g.mux.Handle("POST /v1/limit", withParameters(nil, g.withClient(g.limit)))
	api("GET /v1/cooldowns", g.listCooldowns)
	api("POST /v1/cooldowns", g.setCooldown)
	api("DELETE /v1/cooldowns", g.liftCooldown, "account", "budget", "key")
	for name, read := range g.options.Documents {
		g.mux.Handle("GET /v1/"+name, g.DocumentHandler(read))
	}
	g.mux.Handle("GET /readyz", g.withAnswer(g.ready)) // probes may add parameters of their own
	g.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		g.writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
	})
	g.mux.Handle("GET /v1/openapi.json", withParameters(nil, http.HandlerFunc(g.serveOpenAPI)))
	g.mux.HandleFunc("/", g.notFound)
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer g.boundBody(w, r)()
	if g.isProxied(r) {
		g.serveProxied(w, r)
		return
	}
	r, problem := g.admit(r)
	switch path := r.URL.EscapedPath(); {
	case problem != nil:
		problem.write(w)
	case r.Method == http.MethodConnect:
		notForwardProxy().write(w)
	case strings.HasPrefix(path, "/to/"): // not by the ServeMux, which would redirect to another path
		g.proxy(w, r)
	case cleanPath(r.URL.Path) != r.URL.Path:
		nothingAt(r).write(w)
	default:
		g.mux.ServeHTTP(w, r)
	}
}

// cleanPath is path.Clean, but keeps a final slash.
func cleanPath(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// DocumentHandler returns the handler of a document, for Handle.
func (g *Gateway) DocumentHandler(read Document) http.Handler { return g.withClient(g.document(read)) }

// HandleClient adds a page that reads the client in use, behind the
// same checks.
func (g *Gateway) HandleClient(pattern string, handle func(http.ResponseWriter, *http.Request, *client.Client)) {
	g.mux.Handle(pattern, g.withClient(func(w http.ResponseWriter, r *http.Request, c *connected) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(g.limits.answer))
		handle(w, r, c.Client)
	}))
}

// Handle adds a page of another package's, behind the same checks.
func (g *Gateway) Handle(pattern string, h http.Handler) { g.mux.Handle(pattern, h) }

// HandlePage adds a page for people, at / and below /page/. It checks the token
// itself, because a browser sends a cookie, and links of other sites may lead
// to it. Call it before the gateway is served.
func (g *Gateway) HandlePage(h http.Handler) {
	g.page = h
	g.mux.Handle("/{$}", h)
	g.mux.Handle("/page/", h)
}

// isForPage reports whether a request is for the page.
func (g *Gateway) isForPage(r *http.Request) bool {
	return g.page != nil && (r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/page/"))
}

// notFound answers a request that no other handler matches.
func (g *Gateway) notFound(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := g.mux.Handler(&other); pattern != "" && pattern != "/" {
			methods = append(methods, method)
		}
	}
	if len(methods) == 0 {
		nothingAt(r).write(w)
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	newProblem(http.StatusMethodNotAllowed, "method-not-allowed", "%s is not among the methods of %s",
		inbound.HeaderText(r.Method), r.URL.Path).write(w)
}

func nothingAt(r *http.Request) *problem {
	return newProblem(http.StatusNotFound, "not-found", "there is nothing at %s; see /v1/openapi.json", r.URL.Path)
}

func (g *Gateway) withClient(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := g.acquire(w); c != nil {
			defer c.users.Done()
			handle(w, r, c)
		}
	})
}

// ready answers whether the ledger does, and to callers with the token why
// it does not.
func (g *Gateway) ready(_ http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	for _, account := range c.Table().Accounts() {
		if _, _, err := c.Guard().Now(ctx, account); err != nil {
			if isStranger(r) {
				err = quota.ErrLedgerDown
			}
			return nil, err
		}
		moved, err := c.Guard().Moved(ctx, account)
		if moved != nil && !moved.Arriving {
			err = moved
		}
		if err != nil {
			return nil, err
		}
	}
	return map[string]bool{"ok": true}, nil
}

const readyTimeout = 5 * time.Second
