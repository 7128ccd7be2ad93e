package youtubetest

import (
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

// Model is the set of costs and limits a project is on. The zero value is Legacy.
type Model int

const (
	// Legacy is the model before 2026-06-01: one bucket of 10,000 units a day,
	// search.list costs 100, every other method here 1.
	Legacy Model = iota
	// Since2026 is the model since 2026-06-01: search.list costs 1 in a bucket of
	// its own, 100 a day, and every other method here costs 1 of the default
	// bucket's 10,000.
	Since2026
)

// The buckets, named as in YouTube's quota metrics (youtube.googleapis.com/default).
const (
	DefaultBucket = "default"
	SearchBucket  = "search_list" // of the model Since2026 only
)

// Options shape a server. The zero value is the older model with a full day's
// quota, the real clock, made-up data and no delay.
type Options struct {
	Model       Model
	Limit       int64 // units a window in DefaultBucket; 0 means 10,000 (for none at all see SetLimit)
	SearchLimit int64 // calls a window in SearchBucket, in the model Since2026; 0 means 100

	// Window is how long a quota lasts. 0 means the Pacific day. Anything else
	// makes windows of that length, one after the other from New on: fixed, not
	// sliding, as the real day is. A demo sets some seconds.
	Window time.Duration

	// Now is the clock of meter and record and of the Date header; nil means
	// time.Now. It must be safe for concurrent use. Latency and Fault.Delay pass
	// in real time whatever it says.
	Now func() time.Time

	Latency time.Duration // before every answer, after the charge
	Keys    []string      // API keys that are accepted; empty means any but the empty one
	Data    *Data         // what there is to fetch; nil means DefaultData()

	Exact           bool // refuse a call that does not fit, instead of overshooting
	NotModifiedFree bool // charge nothing for a 304
}

// Server is a local YouTube Data API. It is an http.Handler to be mounted at the
// root of a server. All its methods are safe for concurrent use. Make one with New.
type Server struct {
	opts   Options
	routes map[string]route
	zone   *time.Location
	start  time.Time

	mu       sync.Mutex
	limits   map[string]int64
	used     map[int64]map[string]int64 // by start of window, then bucket
	faults   []*planned
	arrivals []Arrival
}

// route is a method of the API: its name, its cost, and what answers it.
type route struct {
	method string
	bucket string
	units  int64
	list   func(*request) (*listing, *apiError)
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
	s.limits = map[string]int64{DefaultBucket: orElse(s.opts.Limit, 10_000)}
	search := route{method: "search.list", bucket: DefaultBucket, units: 100, list: s.search}
	if s.opts.Model == Since2026 {
		s.limits[SearchBucket] = orElse(s.opts.SearchLimit, 100)
		search.bucket, search.units = SearchBucket, 1
	}
	s.routes = map[string]route{
		"/youtube/v3/search":          search,
		"/youtube/v3/videos":          {"videos.list", DefaultBucket, 1, s.videos},
		"/youtube/v3/channels":        {"channels.list", DefaultBucket, 1, s.channels},
		"/youtube/v3/videoCategories": {"videoCategories.list", DefaultBucket, 1, s.videoCategories},
		"/youtube/v3/i18nRegions":     {"i18nRegions.list", DefaultBucket, 1, s.i18nRegions},
	}
	s.start = s.opts.Now()
	return s
}

func orElse(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// request is what arrived, taken apart.
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
// net/http turns into a closed connection, where a Fault says so.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := s.read(r)
	ans, fault := s.record(req, s.answer(req))
	deliver(r.Context(), w, ans, fault, s.opts.Latency)
}

// answer is what is sent, and how it is metered.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	at      time.Time
	metered bool // the call names a project, so it is checked against the quota
	units   int64
}

// answer says what a healthy upstream with quota to spare would send.
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
	list, bad := req.route.list(req)
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

// matches says whether an If-None-Match header names the etag, with or without
// quotes (Google's own clients send it as it stands in the body: without).
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(tag), "W/"), `"`)
		if tag != "" && (tag == etag || tag == "*") {
			return true
		}
	}
	return false
}

// record meters a request, breaks its answer if a fault says so, and writes it
// down, in one step: the order of arrivals is the order of charges.
func (s *Server) record(req *request, ans answer) (answer, *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ans.at = s.opts.Now()
	fault := s.takeFault(req)
	if fault != nil && fault.Free {
		ans.metered, ans.units = false, 0
	}
	if ans.metered && !s.charge(ans.at, req.route.bucket, ans.units) {
		refused := failed(s.refusal(ans.at, req.route.bucket), req)
		ans.status, ans.body, ans.units = refused.status, refused.body, 0
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

// deliver sends the answer, or as much of it as the fault leaves.
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
	_, _ = w.Write(body) // a client that left is no concern of ours
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
