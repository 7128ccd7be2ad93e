package feedback

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// peekTime is how long peek waits for a body. It is the longest delay that an
// upstream causes which sends headers and then stalls.
const peekTime = 3 * time.Second

// peek returns the body of a response if it has at most limit bytes and ends
// within peekTime and before the request's context does, and nil otherwise. It
// replaces the body with one that reads the same: the bytes read, then the rest
// or the error.
func peek(resp *http.Response, limit int) []byte {
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	ahead := &readAhead{ReadCloser: resp.Body, limit: limit, done: make(chan struct{})}
	resp.Body = ahead
	go ahead.run()
	ctx := context.Background()
	if resp.Request != nil {
		ctx = resp.Request.Context()
	}
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	select {
	case <-ahead.done:
	case <-ctx.Done():
	}
	return ahead.stop()
}

// readAhead is a body whose first bytes are read in the background.
type readAhead struct {
	io.ReadCloser
	limit int           // how many bytes to return; one more is read
	done  chan struct{} // closed when run has returned

	mu      sync.Mutex
	prefix  []byte
	read    int   // how many bytes of prefix the caller has read
	err     error // the error after prefix
	stopped bool
}

// run reads the prefix. It returns when the body ends or fails, as it does when
// the caller closes it, or after at most one more read once stop was called.
func (a *readAhead) run() {
	defer close(a.done)
	chunk := make([]byte, 4<<10)
	for {
		a.mu.Lock()
		room := a.limit + 1 - len(a.prefix)
		ended := a.stopped || room == 0 || a.err != nil
		a.mu.Unlock()
		if ended {
			return
		}
		n, err := a.ReadCloser.Read(chunk[:min(room, len(chunk))])
		a.mu.Lock()
		a.prefix, a.err = append(a.prefix, chunk[:n]...), err
		a.mu.Unlock()
	}
}

// stop ends the reading in the background. It returns the body if that has
// ended within the limit, and nil otherwise.
func (a *readAhead) stop() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.err == nil || len(a.prefix) > a.limit {
		return nil
	}
	return a.prefix
}

// Read returns the prefix, then the rest of the body.
func (a *readAhead) Read(p []byte) (int, error) {
	if n := a.copyPrefix(p); n > 0 || len(p) == 0 {
		return n, nil
	}
	<-a.done
	if n := a.copyPrefix(p); n > 0 {
		return n, nil
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.ReadCloser.Read(p)
}

func (a *readAhead) copyPrefix(p []byte) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := copy(p, a.prefix[a.read:])
	a.read += n
	return n
}

// gunzip decompresses a body. net/http leaves a body compressed if the caller
// asked for gzip itself. It returns nil if the body is malformed or has more
// than limit bytes.
func gunzip(resp *http.Response, body []byte, limit int) []byte {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") || len(body) == 0 {
		return body
	}
	packed, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(io.LimitReader(packed, int64(limit)+1))
	if err != nil || len(plain) > limit {
		return nil
	}
	return plain
}
