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

	"github.com/ration-dev/ration/internal/files"
)

// errStalled ends the context of a proxied request that makes no progress.
var errStalled = errors.New("no byte has moved for too long")

// past is a deadline that is over.
var past = time.Unix(1, 0)

// boundBody sets deadlines for a request whose body may never arrive and whose
// answer may never be read, and returns what must be called at its end:
// net/http reads the rest of a body then.
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
	ahead   *files.Ahead // of the request; nil if it does not wait, or has none

	answered atomic.Bool // the answer's header has arrived
	bodyRead atomic.Bool // the request's body was read to its end
	cut      atomic.Bool // the answer's body ended in an error
	badBody  atomic.Pointer[error]

	mu    sync.Mutex // held while stalled uses control
	timer *time.Timer
	ended bool
}

// newStream returns the stream of a request, and the request with its context,
// derived from ctx. end must be called before the handler returns.
func (g *Gateway) newStream(w http.ResponseWriter, r *http.Request, ctx context.Context) (*stream, *http.Request) {
	ctx, cancel := context.WithCancelCause(ctx)
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
	resp.Body = &answerBody{resp.Body, s, resp}
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

// flushCut sends what there is of an answer that the upstream has cut short.
// Otherwise net/http would close the connection without it, and a client that
// got no byte repeats the request, which is charged again.
func (s *stream) flushCut() {
	if s.cut.Load() {
		_ = s.control.Flush()
	}
}

// answerBody is the body of an answer, which moves its stream. At its end it
// deletes the trailers that are for the gateway or from it.
type answerBody struct {
	io.ReadCloser
	stream *stream
	resp   *http.Response
}

func (b *answerBody) Read(p []byte) (int, error) {
	b.stream.moved() // what was read before is written
	n, err := b.ReadCloser.Read(p)
	b.stream.moved()
	switch {
	case err == io.EOF:
		deleteOwn(b.resp.Trailer)
	case err != nil:
		b.stream.cut.Store(true)
	}
	return n, err
}

// requestBody is the body of a proxied request, which moves its stream. At its
// end it copies the trailers, which httputil.ReverseProxy does not.
type requestBody struct {
	io.ReadCloser
	stream  *stream
	in, out *http.Request
}

// newRequestBody replaces the body of out, a copy of in. If the request waits,
// it begins to read ahead: not before in was copied, because net/http writes
// its trailers at the end of the body.
func newRequestBody(s *stream, in, out *http.Request, waits bool) {
	if waits && in.ProtoMajor == 1 {
		s.ahead = files.ReadAheadSpooled(out.Body, maxAhead, maxSpooled)
		out.Body = s.ahead
	}
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

// net/http notices that an HTTP/1 client has hung up only after it has read the
// whole body. While a request waits for units, at most maxAhead bytes of its
// body are therefore read into memory, and maxSpooled into a temporary file.
const (
	maxAhead   = 64 << 10
	maxSpooled = 1 << 30
)

// endReadAhead ends the reading at once: the body must not be read after the
// handler has returned.
func (s *stream) endReadAhead() {
	if s.ahead == nil {
		return
	}
	s.ahead.Stop()
	select {
	case <-s.ahead.Done():
	default:
		_ = s.control.SetReadDeadline(past)
		<-s.ahead.Done()
	}
	s.ahead.Discard()
}
