package quota

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// sends watches what of one round trip reaches a connection. net/http may send
// a request more than once, when a reused connection died: sends charges every
// further time before a connection is used for it, and cancels the round trip
// when that is refused.
type sends struct {
	charge func() (*Grant, error)
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	grants    []*Grant // each pays for sending the request once
	written   int      // how often request headers were written
	asked     bool     // a connection was asked for
	connected bool     // and got, since it was last asked for
	failures  []error  // with which connecting failed
	refused   error
}

// watch returns a context under which s watches. Its hooks may be called after
// the round trip has ended, by a connection that nothing waits for any more.
func (s *sends) watch(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { s.askConnection() },
		GotConn: func(httptrace.GotConnInfo) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.connected = true
		},
		WroteHeaders: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.written++
		},
		DNSDone:          func(i httptrace.DNSDoneInfo) { s.fail(i.Err) },
		ConnectDone:      func(_, _ string, err error) { s.fail(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { s.fail(err) },
	})
}

// askConnection pays for what is about to be sent, unless it is paid for.
func (s *sends) askConnection() {
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

// fail notes why a connection could not be made. An error that other failures
// share proves nothing.
func (s *sends) fail(err error) {
	if err == nil || err == io.EOF || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, err)
}

// unsent returns the grant of a request that provably was not sent, or nil. See
// Transport.RoundTrip for what is a proof.
func (s *sends) unsent(err error, base http.RoundTripper) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.grants[len(s.grants)-1]
	if s.connected || s.written >= len(s.grants) {
		return nil
	}
	if errors.Is(err, ErrGuardedTwice) && !s.asked {
		return last
	}
	switch net, wrapped := unwrapped(base); {
	case net == nil || !s.asked:
		return nil
	case wrapped && !s.failedWith(err):
		return nil
	}
	return last
}

// failedWith reports whether err is one with which connecting failed, and no
// other besides it.
func (s *sends) failedWith(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		for _, failure := range s.failures {
			if err == failure {
				return true
			}
		}
	}
	return false
}

// uncharged returns how often the request was sent without being paid for.
func (s *sends) uncharged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.written-len(s.grants))
}

// refusal returns why a further send was refused, or nil.
func (s *sends) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// last returns the grant of the send that was answered.
func (s *sends) last() *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants[len(s.grants)-1]
}

// maxUnwrap bounds how many wrappers are looked through: they may form a cycle.
const maxUnwrap = 16

// unwrapped returns net/http's transport if base is that, or says that it wraps
// it, and nil otherwise.
func unwrapped(base http.RoundTripper) (net *http.Transport, wrapped bool) {
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

// released returns the body of an answer, which cancels the request's context
// when it is closed or read to its end. Where no context waits for that, it is
// the body itself.
func released(resp *http.Response, parent context.Context, cancel context.CancelCauseFunc) io.ReadCloser {
	if parent.Done() == nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.Body
	}
	if resp.Body == nil || resp.Body == http.NoBody {
		cancel(nil)
		return resp.Body
	}
	return &releasing{resp.Body, cancel}
}

type releasing struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (r *releasing) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil {
		r.cancel(nil)
	}
	return n, err
}

func (r *releasing) Close() error {
	defer r.cancel(nil)
	return r.ReadCloser.Close()
}
