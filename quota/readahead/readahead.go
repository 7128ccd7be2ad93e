// Package readahead reads the beginning of a body in the background.
package readahead

import (
	"io"
	"sync"
)

// Body is a body whose first bytes are read in the background. It reads the same
// as the one before it: those bytes, then the rest or the error.
type Body struct {
	io.ReadCloser
	limit int
	done  chan struct{} // closed when run has returned

	mu      sync.Mutex
	prefix  []byte
	read    int   // how many bytes of prefix the caller has read
	err     error // what follows prefix
	stopped bool
}

// New returns a Body that reads at most limit bytes of body in the background. The
// caller must not use body itself any more.
func New(body io.ReadCloser, limit int) *Body {
	b := &Body{ReadCloser: body, limit: limit, done: make(chan struct{})}
	go b.run()
	return b
}

// run reads the prefix. It returns when the body ends or fails, as it does when
// the caller closes it, or after at most one more read once Stop was called.
func (b *Body) run() {
	defer close(b.done)
	chunk := make([]byte, 4<<10)
	for {
		b.mu.Lock()
		room := b.limit - len(b.prefix)
		ended := b.stopped || room == 0 || b.err != nil
		b.mu.Unlock()
		if ended {
			return
		}
		n, err := b.ReadCloser.Read(chunk[:min(room, len(chunk))])
		b.mu.Lock()
		b.prefix, b.err = append(b.prefix, chunk[:n]...), err
		b.mu.Unlock()
	}
}

// Done is closed when no more is read in the background.
func (b *Body) Done() <-chan struct{} { return b.done }

// Stop makes the reading in the background end with the next bytes. It returns
// what was read, and whether that is the whole body.
func (b *Body) Stop() (prefix []byte, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.prefix, b.err != nil
}

// Read stops the reading in the background, and returns the prefix, then the rest
// of the body.
func (b *Body) Read(p []byte) (int, error) {
	b.Stop()
	if n := b.copyPrefix(p); n > 0 || len(p) == 0 {
		return n, nil
	}
	<-b.done
	if n := b.copyPrefix(p); n > 0 {
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

func (b *Body) copyPrefix(p []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := copy(p, b.prefix[b.read:])
	b.read += n
	return n
}
