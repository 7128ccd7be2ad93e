// Package web is the page of ration serve and ration status --web: what is left
// of each budget, who spent the rest and when, what the schedule will request,
// and why calls were refused. It is rendered on the server and works without
// JavaScript; with it, the page is live.
//
// # What an update reads
//
// While a page is open, the Page reads all of it every second: the log of each
// account as this process's fold has it, what it adds up to, and what the
// schedule makes of it. A log of 100,000 entries takes about half a second.
// Readings take at most a sixth of the time, so that longer logs are read less
// often. While the ledger is down, the page shows what this host knows of it.
// Nothing is read while no page is open.
//
// # Safety
//
// No GET changes anything. A change takes a POST with a token that only the
// page has, from the page's own origin. If the gateway needs a token, so does
// the page: it is given once, and a cookie that page scripts cannot read and
// that no other site can send stands for it. The content security policy
// allows nothing from elsewhere and nothing inline, and html/template escapes
// all names.
package web

import (
	"context"
	"crypto/rand"
	"embed"
	"html/template"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
)

//go:embed page
var files embed.FS

// Options are options for New. Client is required.
type Options struct {
	// Client returns the client in use and what ends its use, or nil if there
	// is none at present.
	Client func() (c *client.Client, release func())

	// Token, if it is set, is required of every request: as Authorization:
	// Bearer TOKEN, or once in the form of the page.
	Token string

	// Regions returns the schedule, for the plan of the coming day. nil, or no
	// regions, shows none.
	Regions func(*costs.Table) ([]jobs.Region, error)

	// Region returns a region that a reader names as costs.yaml writes it. nil
	// leaves it.
	Region func(name string, table *costs.Table) string

	// Catalog is the path of the catalogue, for the passes; "" shows none.
	Catalog string

	// Redact removes secrets from texts of other programs. nil leaves them.
	Redact func(string) string

	// Version is that of the program; "" shows none.
	Version string

	// Every is the time between two updates of an open page; 0 is two seconds.
	Every time.Duration
}

// Page is an http.Handler for / and for all below /page/. It is safe for
// concurrent use.
type Page struct {
	options   Options
	mux       *http.ServeMux
	templates *template.Template
	secret    []byte          // of this process, for the token of forms
	boot      string          // names this process in the ids of events
	lifetime  context.Context // ends with Close
	end       context.CancelFunc

	streams atomic.Int32 // that are open

	mu      sync.Mutex
	reader  *reader // of the client in use; nil before the first
	views   map[view]*rendered
	version int // of views; grows with each change
}

// New returns a Page.
func New(o *Options) *Page {
	p := &Page{options: *o, mux: http.NewServeMux(), secret: make([]byte, 32), boot: rand.Text()[:8],
		views: map[view]*rendered{}}
	p.lifetime, p.end = context.WithCancel(context.Background())
	rand.Read(p.secret)
	if p.options.Every == 0 {
		p.options.Every = 2 * time.Second
	}
	if p.options.Region == nil {
		p.options.Region = func(name string, _ *costs.Table) string { return name }
	}
	if p.options.Redact == nil {
		p.options.Redact = func(text string) string { return text }
	}
	p.templates = template.Must(template.New("").Funcs(functions()).ParseFS(files, "page/*.html"))
	p.mux.HandleFunc("GET /{$}", p.needToken(p.show))
	p.mux.HandleFunc("GET /page/events", p.needToken(p.stream))
	p.mux.HandleFunc("POST /page/lift", p.needToken(p.needForm(p.lift)))
	p.mux.HandleFunc("POST /page/sign-in", p.signIn)
	p.mux.HandleFunc("POST /page/sign-out", p.needToken(p.needForm(p.signOut)))
	for name, kind := range map[string]string{"page.css": "text/css; charset=utf-8",
		"page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		p.mux.HandleFunc("GET /page/"+name, serveFile(name, kind))
	}
	return p
}

// Close ends the streams of open pages and what is read for them, so that a
// server can shut down.
func (p *Page) Close() {
	p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reader != nil {
		p.reader.close()
	}
}

// policy allows what the page has: its own script, style and icon, its stream,
// and its forms.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // without a referrer, a form would have no origin
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	p.mux.ServeHTTP(w, r)
}

// serveFile serves an embedded file. Its address has a hash of all files, so
// that a browser keeps it until it changes.
func serveFile(name, kind string) http.HandlerFunc {
	text, err := files.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "max-age=31536000, immutable")
		_, _ = w.Write(text)
	}
}
