package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// errStalled ends the context of a proxied request that makes no progress.
var errStalled = errors.New("no byte has moved for too long")

// past is a deadline that is over.
var past = time.Unix(1, 0)

// boundBody sets deadlines for a request whose body may never arrive and whose
// answer may never be read, and returns what must be called at its end: net/http
// reads the rest of a body then.
func (g *Gateway) boundBody(w http.ResponseWriter, r *http.Request) (end func()) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // it was set for the connection's last answer
	if !hasBody(r) {
		return func() {}
	}
	_ = control.SetReadDeadline(time.Now().Add(g.limits.body))
	return func() { _ = control.SetReadDeadline(time.Now().Add(g.limits.drain)) }
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// stream is a proxied request, which is ended when nothing of it moves. Waiting
// for units, and for the header of the answer, have limits of their own.
type stream struct {
	limit   time.Duration
	cancel  context.CancelCauseFunc
	control *http.ResponseController

	answered atomic.Bool // the answer's header has arrived
	bodyRead atomic.Bool // the request's body was read to its end
	badBody  atomic.Pointer[error]

	mu    sync.Mutex // held while stalled uses control
	timer *time.Timer
	ended bool
}

// newStream returns the stream of a request, and the request with its context.
// end must be called before the handler returns.
func (g *Gateway) newStream(w http.ResponseWriter, r *http.Request) (*stream, *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	s := &stream{limit: g.limits.stall, cancel: cancel, control: http.NewResponseController(w)}
	s.timer = time.AfterFunc(s.limit, s.stalled)
	s.timer.Stop()
	_ = s.control.SetReadDeadline(time.Time{})
	return s, r.WithContext(ctx)
}

func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.timer.Stop()
	s.cancel(nil)
}

// answer is called with the answer's header. If it comes before the end of an
// HTTP/1 request, the connection is closed after both: net/http panics on the
// next request if the handler returns before it has read the body.
func (s *stream) answer(r *http.Request, resp *http.Response) {
	s.answered.Store(true)
	if hasBody(r) && r.ProtoMajor == 1 && !s.bodyRead.Load() {
		_ = s.control.EnableFullDuplex()
		resp.Header.Set("Connection", "close")
	}
	resp.Body = &answerBody{resp.Body, s}
}

// moved is called whenever the stream makes progress.
func (s *stream) moved() { s.timer.Reset(s.limit) }

// stalled ends what may be blocked: the exchange with the upstream, reading the
// request and, if it has begun, writing the answer.
func (s *stream) stalled() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.cancel(errStalled)
	_ = s.control.SetReadDeadline(past)
	if s.answered.Load() {
		_ = s.control.SetWriteDeadline(past)
	}
}

// answerBody is the body of an answer, which moves its stream.
type answerBody struct {
	io.ReadCloser
	stream *stream
}

func (b *answerBody) Read(p []byte) (int, error) {
	b.stream.moved() // what was read before is written
	n, err := b.ReadCloser.Read(p)
	b.stream.moved()
	return n, err
}

// requestBody is the body of a proxied request, which moves its stream. At its
// end it copies the trailers, which httputil.ReverseProxy does not.
type requestBody struct {
	io.ReadCloser
	stream  *stream
	in, out *http.Request
}

// newRequestBody replaces the body of out, a copy of in.
func newRequestBody(s *stream, in, out *http.Request) {
	for name := range out.Trailer {
		if strings.HasPrefix(name, headerPrefix) {
			delete(out.Trailer, name)
		}
	}
	out.Body = &requestBody{out.Body, s, in, out}
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.stream.moved()
	n, err := b.ReadCloser.Read(p)
	b.stream.moved()
	switch {
	case err == io.EOF:
		b.stream.bodyRead.Store(true)
		for name := range b.out.Trailer {
			b.out.Trailer[name] = b.in.Trailer[name]
		}
		if !b.stream.answered.Load() {
			b.stream.timer.Stop() // the limit for the answer's header applies
		}
	case err != nil:
		b.stream.badBody.Store(&err)
	}
	return n, err
}

// maxAhead is how much of a body is read while its request waits for units.
const maxAhead = 64 << 10

// readAhead is a body whose beginning is read in the background, because
// net/http notices that an HTTP/1 client has hung up only after it has read the
// whole body.
type readAhead struct {
	io.ReadCloser
	done chan struct{} // closed when run has returned

	mu      sync.Mutex
	ahead   []byte
	err     error // what follows ahead
	stopped bool
}

func newReadAhead(body io.ReadCloser) *readAhead {
	a := &readAhead{ReadCloser: body, done: make(chan struct{})}
	go a.run()
	return a
}

// run reads until the body ends, maxAhead is reached or, after stop, for at most
// one more read.
func (a *readAhead) run() {
	defer close(a.done)
	chunk := make([]byte, 4<<10)
	for {
		a.mu.Lock()
		room := maxAhead - len(a.ahead)
		ended := a.stopped || room == 0 || a.err != nil
		a.mu.Unlock()
		if ended {
			return
		}
		n, err := a.ReadCloser.Read(chunk[:min(room, len(chunk))])
		a.mu.Lock()
		a.ahead, a.err = append(a.ahead, chunk[:n]...), err
		a.mu.Unlock()
	}
}

// stop makes the reading in the background end with the next bytes.
func (a *readAhead) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
}

// end ends it at once. The body must not be read after the handler has returned.
func (a *readAhead) end(control *http.ResponseController) {
	a.stop()
	select {
	case <-a.done:
	default:
		_ = control.SetReadDeadline(past)
		<-a.done
	}
}

// Read returns what was read, then the rest of the body.
func (a *readAhead) Read(p []byte) (int, error) {
	a.stop()
	if n := a.take(p); n > 0 || len(p) == 0 {
		return n, nil
	}
	<-a.done
	if n := a.take(p); n > 0 {
		return n, nil
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.ReadCloser.Read(p)
}

func (a *readAhead) take(p []byte) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := copy(p, a.ahead)
	a.ahead = a.ahead[n:]
	return n
}
