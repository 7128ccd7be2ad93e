package youtubetest

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// Delivery is how much of an answer reaches the client. The zero value is Whole.
type Delivery int

const (
	Whole    Delivery = iota
	Dropped           // the connection is reset before any answer
	CutShort          // the connection ends in the middle of the body
	Stalled           // half the body, then nothing until the client leaves
	Halved            // half the body, sent as if it were all: broken JSON
)

// Fault breaks answers. It says which requests, what is sent instead, and how
// much of that arrives; each part may be left zero. A faulty answer is charged
// like any other, unless it is Free: what is lost on the way was metered all the same.
//
//	Fault{Status: 503}                                          // 503 backendError, once
//	Fault{Reason: "quotaExceeded", Times: -1}                   // the daily 403, for good
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
	Skip   int    // lets so many of them pass first
	Every  int    // then hits one in so many, the first of them first; 0 means each
	Times  int    // how often in all; 0 means once, negative means until ClearFaults

	Delay time.Duration // before the answer, in real time; negative means until the client leaves

	// Status, Reason and Body replace the answer. A Reason ("quotaExceeded",
	// "rateLimitExceeded", "backendError", …) gives Google's status and error body
	// for it; with a Status from 400 on, that instead of its usual one
	// (rateLimitExceeded with 429 is the per-minute limit's body), with one below, as
	// an error inside a success. A Status alone gives the usual reason for it. A Body is sent as it is.
	// All three zero: the ordinary answer.
	Status int
	Reason string
	Body   string
	Header http.Header // added to the answer, replacing lines of the same name

	Delivery Delivery
	Free     bool // neither checked against the quota nor charged
}

// planned is a Fault and how far it has got.
type planned struct {
	Fault
	offered, done int
}

// Fail adds faults. A request is offered to them in the order they were added,
// and the first that hits it has it; the others have then not seen it.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		f.Header = f.Header.Clone()
		s.faults = append(s.faults, &planned{Fault: f})
	}
}

// ClearFaults removes all faults. Answers under way are not changed.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

func (s *Server) takeFault(req *request) *Fault {
	for _, p := range s.faults {
		if p.hits(req) {
			return &p.Fault
		}
	}
	return nil
}

func (p *planned) hits(req *request) bool {
	if p.Method != "" && p.Method != req.route.method || p.Region != "" && p.Region != req.region {
		return false
	}
	if p.Times >= 0 && p.done >= max(p.Times, 1) {
		return false
	}
	n := p.offered - p.Skip
	p.offered++
	if n < 0 || n%max(p.Every, 1) != 0 {
		return false
	}
	p.done++
	return true
}

// silent says whether the client gets no status at all.
func (f *Fault) silent() bool { return f.Delivery == Dropped || f.Delay < 0 }

// apply puts the fault's own answer in the place of ans.
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

// pause waits. If the client leaves meanwhile there is nobody to answer.
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

// reset ends the connection with a TCP reset where it can be had, and never returns.
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

// breakOff sends half of body, whose whole length the header has promised, and never returns.
func breakOff(ctx context.Context, w http.ResponseWriter, body []byte, delivery Delivery) {
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	if delivery == Stalled {
		<-ctx.Done()
	}
	panic(http.ErrAbortHandler)
}
