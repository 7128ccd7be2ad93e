package youtubetest

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Model is a project's set of costs and limits. The zero value is Legacy.
type Model int

const (
	// Legacy is the model before 2026-06-01: one bucket of 10,000 units a day,
	// search.list costs 100, every other method here 1.
	Legacy Model = iota
	// Since2026 is the model since 2026-06-01: search.list costs 1 in a bucket
	// of its own, 100 a day, and every other method here costs 1 of the default
	// bucket's 10,000.
	Since2026
)

// The buckets, named as in YouTube's quota metrics
// (youtube.googleapis.com/default).
const (
	DefaultBucket = "default"
	SearchBucket  = "search_list" // of the model Since2026 only
)

// Options configure a server. The zero value is the model Legacy with a full
// day's quota, the real clock, DefaultData and no delay.
type Options struct {
	Model       Model
	Limit       int64 // units of DefaultBucket per window; 0 means 10,000 (see SetLimit for a limit of 0)
	SearchLimit int64 // calls of SearchBucket per window, in the model Since2026; 0 means 100

	// Window is how long a quota lasts. 0 means the Pacific day. Other windows
	// follow each other from New on: fixed like the real day, not sliding. A
	// demo sets a few seconds.
	Window time.Duration

	// Now is the clock of the meter, the arrivals and the Date header; nil
	// means time.Now. It must be safe for concurrent use. Latency and
	// Fault.Delay take real time.
	Now func() time.Time

	Latency time.Duration // before every answer, after the charge
	Keys    []string      // valid API keys; none means that any nonempty key is valid
	Data    *Data         // what is served; nil means DefaultData()

	Exact           bool // refuse a call that does not fit, instead of overshooting
	NotModifiedFree bool // charge nothing for a 304
}

// Server is a local YouTube Data API. It is an http.Handler to mount at the
// root of a server. Its methods are safe for concurrent use. Make one with New.
type Server struct {
	opts   Options
	routes map[string]route
	zone   *time.Location
	start  time.Time

	mu       sync.Mutex
	limits   map[string]int64
	used     map[int64]map[string]int64 // by start of window, then bucket
	faults   []*faultState
	arrivals []Arrival
}

// route is a method of the API: its name, its cost, and the function that
// answers it.
type route struct {
	method string
	bucket string
	units  int64
	parts  string // that it knows
	list   func(r *request, parts map[string]bool) (*listing, *apiError)
}

// New makes a server. A nil opts means the zero Options.
func New(opts *Options) *Server {
	s := &Server{used: map[int64]map[string]int64{}, zone: pacific()}
	if opts != nil {
		s.opts = *opts
		s.opts.Keys = slices.Clone(opts.Keys)
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.Data == nil {
		s.opts.Data = DefaultData()
	}
	s.limits = map[string]int64{DefaultBucket: cmp.Or(s.opts.Limit, 10_000)}
	search := route{method: "search.list", bucket: DefaultBucket, units: 100, parts: "snippet", list: s.search}
	if s.opts.Model == Since2026 {
		s.limits[SearchBucket] = cmp.Or(s.opts.SearchLimit, 100)
		search.bucket, search.units = SearchBucket, 1
	}
	s.routes = map[string]route{
		"/youtube/v3/search":          search,
		"/youtube/v3/videos":          {"videos.list", DefaultBucket, 1, videoParts, s.videos},
		"/youtube/v3/channels":        {"channels.list", DefaultBucket, 1, channelParts, s.channels},
		"/youtube/v3/videoCategories": {"videoCategories.list", DefaultBucket, 1, "snippet", s.videoCategories},
		"/youtube/v3/i18nRegions":     {"i18nRegions.list", DefaultBucket, 1, "snippet", s.i18nRegions},
	}
	s.start = s.opts.Now()
	return s
}

// request is a parsed request.
type request struct {
	route   route // zero if there is no such method
	path    string
	query   url.Values // without the key
	region  string     // regionCode in upper case, or ""
	key     string
	keyIn   string
	ifMatch string
}

func (s *Server) read(r *http.Request) *request {
	req := &request{path: r.URL.Path, query: r.URL.Query(), ifMatch: r.Header.Get("If-None-Match")}
	if r.Method == http.MethodGet {
		req.route = s.routes[r.URL.Path]
	}
	if k := r.Header.Get("X-Goog-Api-Key"); k != "" {
		req.key, req.keyIn = k, "header"
	}
	if k := req.query.Get("key"); k != "" {
		req.key, req.keyIn = k, "query"
	}
	req.query.Del("key")
	req.region = strings.ToUpper(req.query.Get("regionCode"))
	return req
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler, which
// makes net/http close the connection, if a Fault cuts the answer short or the
// client leaves.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := s.read(r)
	ans, fault := s.record(req, s.answer(req))
	deliver(r.Context(), w, ans, fault, s.opts.Latency)
}

// answer is the answer to a request, and how it is metered.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	at      time.Time
	metered bool // the call names a project, so it is checked against the quota
	units   int64
}

// answer returns what a healthy upstream with enough quota would send.
func (s *Server) answer(req *request) answer {
	if req.route.list == nil {
		return failed(errNoSuchMethod(), req)
	}
	if req.key == "" {
		return failed(errNoKey(), req)
	}
	if len(s.opts.Keys) > 0 && !slices.Contains(s.opts.Keys, req.key) {
		return failed(errBadKey(), req)
	}
	parts, bad := req.parts()
	var list *listing
	if bad == nil {
		list, bad = req.route.list(req, parts)
	}
	if bad != nil {
		ans := failed(bad, req)
		ans.metered, ans.units = true, 1
		return ans
	}
	ans := answer{status: http.StatusOK, metered: true, units: req.route.units}
	ans.body = list.encode(req)
	if matches(req.ifMatch, list.Etag) {
		ans.status, ans.body = http.StatusNotModified, nil
		if s.opts.NotModifiedFree {
			ans.units = 0
		}
	}
	return ans
}

// matches reports whether an If-None-Match header names the etag, with or
// without quotes. Google's own clients send it as it is in the body,
// without quotes.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`)
		if tag != "" && (tag == etag || tag == "*") {
			return true
		}
	}
	return false
}

// record meters a request, applies a fault to its answer, and records its
// arrival, all in one step: arrivals are in the order of the charges.
func (s *Server) record(req *request, ans answer) (answer, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ans.at = s.opts.Now()
	fault := s.nextFault(req)
	if fault != nil && fault.Free {
		ans.metered, ans.units = false, 0
	}
	if ans.metered && !s.charge(ans.at, req.route.bucket, ans.units) {
		refused := failed(s.refusal(ans.at, req.route.bucket), req)
		ans.status, ans.body = refused.status, refused.body
		ans.units = 0
	}
	if fault != nil {
		fault.apply(&ans, req)
	}
	a := Arrival{
		At: ans.at, Method: req.route.method, Path: req.path, Query: req.query, Region: req.region,
		KeyIn: req.keyIn, Units: ans.units, Status: ans.status, Fault: fault != nil,
	}
	if ans.units > 0 {
		a.Bucket = req.route.bucket
	}
	if fault != nil && fault.silent() {
		a.Status = 0
	}
	s.arrivals = append(s.arrivals, a)
	return ans, fault
}

// deliver sends the answer, or the part of it that the fault lets through.
func deliver(ctx context.Context, w http.ResponseWriter, ans answer, fault *Fault, latency time.Duration) {
	delivery := Whole
	if fault != nil {
		delivery = fault.Delivery
		pause(ctx, fault.Delay)
	}
	pause(ctx, latency)
	if delivery == Dropped {
		reset(w)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=UTF-8")
	h.Set("Cache-Control", "private")
	h.Set("Date", ans.at.UTC().Format(http.TimeFormat))
	maps.Copy(h, ans.header)
	if !bodyAllowed(ans.status) {
		w.WriteHeader(ans.status)
		return
	}
	body := ans.body
	if delivery == Halved {
		body = body[:len(body)/2]
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(ans.status)
	if delivery == CutShort || delivery == Stalled {
		breakOff(ctx, w, body, delivery)
	}
	_, _ = w.Write(body) // fails if the client left
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
