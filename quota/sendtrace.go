package quota

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// sendTrace traces how often one round trip sends its request. net/http
// may send a request again if a reused connection died. sendTrace charges
// each further send before it is written, and cancels the round trip if
// that is refused.
type sendTrace struct {
	charge func() (*Grant, error) // never waits for units: HTTP/2 has its pool of connections locked
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	grants    []*Grant // one for each send that is paid for
	written   int      // how often request headers were written
	asked     bool     // whether a connection was requested
	connected bool     // whether the last request for a connection got one
	failures  []error  // errors of connecting
	cut       bool     // whether the connection was closed before the send
	refused   error    // why a further send was refused
}

// start returns a context that traces a round trip. Its hooks may be called
// after the round trip has ended, by a connection that is still being made.
func (s *sendTrace) start(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.paySend() },
		GotConn: func(info httptrace.GotConnInfo) { s.useConn(info.Conn) },
		WroteHeaders: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.cut {
				s.written++
			}
		},
		DNSDone:          func(i httptrace.DNSDoneInfo) { s.addFailure(i.Err) },
		ConnectDone:      func(_, _ string, err error) { s.addFailure(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { s.addFailure(err) },
	})
}

// paySend charges the next send, unless it is paid for or was refused.
func (s *sendTrace) paySend() {
	s.mu.Lock()
	s.asked, s.connected = true, false
	paid := s.written < len(s.grants) || s.refused != nil
	s.mu.Unlock()
	if paid {
		return
	}
	grant, err := s.charge()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.refused = err
		s.cancel(err)
		return
	}
	s.grants = append(s.grants, grant)
}

// useConn is called with the connection of the next send. It charges the send
// if nothing else has: HTTP/2 asks for a connection in silence when it sends a
// request again over one that another request has dialled. If the send was
// refused, it closes the connection, since net/http may write to an idle one
// although the context has ended. HTTP/2 looks at the context, and its
// connection is shared.
func (s *sendTrace) useConn(conn net.Conn) {
	encrypted, ok := conn.(*tls.Conn)
	shared := ok && encrypted.ConnectionState().NegotiatedProtocol == "h2"
	s.paySend()
	s.mu.Lock()
	s.connected = true
	s.cut = s.refused != nil && !shared
	cut := s.cut
	s.mu.Unlock()
	if cut && conn != nil {
		conn.Close()
	}
}

// addFailure records why a connection could not be made. It ignores errors that
// can have other causes, which prove nothing.
func (s *sendTrace) addFailure(err error) {
	isOfContext := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if err == nil || err == io.EOF || isOfContext {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, err)
}

// unsent returns the last grant if its request was provably not sent, or nil.
// See Transport.RoundTrip for what counts as proof.
func (s *sendTrace) unsent(err error, base http.RoundTripper) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.grants[len(s.grants)-1]
	if s.connected || s.written >= len(s.grants) {
		return nil
	}
	if errors.Is(err, ErrGuardedTwice) && !s.asked {
		return last
	}
	transport, wrapped := unwrapTransport(base)
	if transport == nil || !s.asked {
		return nil
	}
	if wrapped && !s.failedWith(err) {
		return nil
	}
	return last
}

// failedWith reports whether err is, or wraps, an error of connecting and no
// other error.
func (s *sendTrace) failedWith(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		for _, failure := range s.failures {
			if err == failure {
				return true
			}
		}
	}
	return false
}

// uncharged returns how often the request was sent without a charge.
func (s *sendTrace) uncharged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.written-len(s.grants))
}

// refusal returns the error that refused a further send, or nil.
func (s *sendTrace) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// last returns the grant of the last send, which is the one that was answered.
func (s *sendTrace) last() *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants[len(s.grants)-1]
}

// before returns the grants of all sends, or of all but the last one.
func (s *sendTrace) before(isAnswered bool) []*Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isAnswered {
		return s.grants[:len(s.grants)-1]
	}
	return s.grants
}

// maxUnwrap is how many wrappers are unwrapped, since they may form a cycle.
const maxUnwrap = 16

// unwrapTransport returns the *http.Transport that base is or wraps, or nil.
func unwrapTransport(base http.RoundTripper) (transport *http.Transport, wrapped bool) {
	for range maxUnwrap {
		switch b := base.(type) {
		case *http.Transport:
			return b, wrapped
		case interface{ Unwrap() http.RoundTripper }:
			base, wrapped = b.Unwrap(), true
		default:
			return nil, wrapped
		}
	}
	return nil, wrapped
}

// cancelingBody returns a body of resp that cancels the request's context
// when it is closed or read to its end. It returns the body itself if the
// parent context never ends, so that nothing would leak, or if the protocol
// was switched: net/http has then handed the connection over, and does not
// watch the context.
func cancelingBody(resp *http.Response, parent context.Context, cancel context.CancelCauseFunc,
	base http.RoundTripper) io.ReadCloser {
	if parent.Done() == nil {
		return resp.Body
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if transport, _ := unwrapTransport(base); transport != nil {
			cancel(nil)
		}
		return resp.Body
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		cancel(nil)
		return resp.Body
	}
	return &cancelBody{resp.Body, cancel}
}

type cancelBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (r *cancelBody) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil {
		r.cancel(nil)
	}
	return n, err
}

func (r *cancelBody) Close() error {
	defer r.cancel(nil)
	return r.ReadCloser.Close()
}
