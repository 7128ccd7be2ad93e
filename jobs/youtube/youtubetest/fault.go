package youtubetest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// Delivery says how much of an answer reaches the client. The zero value
// is Whole.
type Delivery int

const (
	Whole    Delivery = iota
	Dropped           // the connection is reset before any answer
	CutShort          // the connection ends in the middle of the body
	Stalled           // half the body, then nothing until the client leaves
	Halved            // half the body, sent as if it were all: broken JSON
)

// Fault breaks answers. Its fields say which requests it hits, what is sent
// instead, and how much of that arrives; each may be zero. A faulty answer is
// charged like any other, even if it is lost on the way, unless Free is set.
//
//	Fault{Status: 503}                                          // 503 backendError, once
//	Fault{Reason: "quotaExceeded", Times: -1}                   // the daily 403, until ClearFaults
//	Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}}
//	Fault{Method: "search.list", Skip: 2, Delivery: Dropped}    // the third search is cut off
//	Fault{Every: 2, Times: -1, Reason: "quotaExceeded"}         // every other call
//	Fault{Status: 502, Body: "<html>Bad Gateway</html>"}
//
// net/http resends a GET whose reused connection was dropped before an answer:
// one call of the client is then two arrivals here, both charged.
type Fault struct {
	Method string // which requests: "search.list"; "" means any, unknown paths included
	Region string // those with this regionCode; "" means any
	Skip   int    // number of matching requests that pass first
	Every  int    // then hits the first of every Every requests; 0 means each
	Times  int    // most hits; 0 means once, negative means until ClearFaults

	Delay time.Duration // before the answer, in real time; negative means until the client leaves

	// Status, Reason and Body replace the answer; if all are zero, the ordinary
	// answer is sent. A Reason ("quotaExceeded", "rateLimitExceeded",
	// "backendError", …) gives Google's status and error body for it. A Status
	// of 400 or more replaces that status (rateLimitExceeded with 429 has the
	// body of the per-minute limit); a lower one sends an error inside a
	// success. A Status alone gives its usual reason. A Body is sent as is.
	Status int
	Reason string
	Body   string
	Header http.Header // added to the answer, replacing fields of the same name

	Delivery Delivery
	Free     bool // neither checked against the quota nor charged
}

// faultState is a Fault with the number of requests that it was offered and
// that it hit.
type faultState struct {
	Fault
	offered, done int
}

// Fail adds faults. A request is offered to each in the order they were added,
// until one hits it; the faults after that do not count it.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		f.Header = f.Header.Clone()
		s.faults = append(s.faults, &faultState{Fault: f})
	}
}

// ClearFaults removes all faults. It does not change answers in flight.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// nextFault returns the fault that hits a request, or nil, and counts the hit.
func (s *Server) nextFault(req *request) *Fault {
	for _, f := range s.faults {
		if f.hits(req) {
			return &f.Fault
		}
	}
	return nil
}

func (f *faultState) hits(req *request) bool {
	isMethod := f.Method == "" || f.Method == req.route.method
	isRegion := f.Region == "" || f.Region == req.region
	if !isMethod || !isRegion {
		return false
	}
	if f.Times >= 0 && f.done >= max(f.Times, 1) {
		return false
	}
	n := f.offered - f.Skip
	f.offered++
	if n < 0 || n%max(f.Every, 1) != 0 {
		return false
	}
	f.done++
	return true
}

// silent reports whether the client gets no status.
func (f *Fault) silent() bool { return f.Delivery == Dropped || f.Delay < 0 }

// apply replaces ans by the fault's own answer.
func (f *Fault) apply(ans *answer, req *request) {
	ans.header = f.Header
	switch {
	case f.Body != "":
		ans.status, ans.body = max(f.Status, http.StatusOK), []byte(f.Body)
		if strings.HasPrefix(f.Body, "<") && f.Header.Get("Content-Type") == "" {
			ans.header = f.Header.Clone()
			if ans.header == nil {
				ans.header = http.Header{}
			}
			ans.header.Set("Content-Type", "text/html; charset=UTF-8")
		}
	case f.Reason != "" || f.Status >= http.StatusBadRequest:
		bad := failed(errFor(f.Reason, f.Status), req)
		ans.status, ans.body = bad.status, bad.body
		if f.Status != 0 {
			ans.status = f.Status
		}
	case f.Status != 0 && f.Status != http.StatusOK:
		ans.status, ans.body = f.Status, nil
	}
}

// pause waits for d, or if d is negative until the client leaves. It panics
// with http.ErrAbortHandler if the client leaves.
func pause(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	var up <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		up = timer.C
	}
	select {
	case <-up:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// reset closes the connection, with a TCP reset if possible. It never returns.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2, or a recorder
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	panic(http.ErrAbortHandler)
}

// breakOff sends half of body after a header with the length of all of it, and
// ends the answer. It never returns.
func breakOff(ctx context.Context, w http.ResponseWriter, body []byte, delivery Delivery) {
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	if delivery == Stalled {
		<-ctx.Done()
	}
	panic(http.ErrAbortHandler)
}
