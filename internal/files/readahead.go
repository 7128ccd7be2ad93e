package files

import (
	"io"
	"sync"
)

// Ahead is a body whose first bytes are read in the background. It reads the
// same as the one before it: those bytes, then the rest or the error.
type Ahead struct {
	io.ReadCloser
	done chan struct{} // closed when run has returned

	mu      sync.Mutex
	spool   spool
	read    int64 // how many bytes of spool the caller has read
	err     error // what follows spool
	stopped bool
}

// ReadAhead returns a Body that reads at most limit bytes of body in the
// background. The caller must not use body itself any more.
func ReadAhead(body io.ReadCloser, limit int) *Ahead { return ReadAheadSpooled(body, limit, 0) }

// ReadAheadSpooled is New, and reads up to inFile more bytes into a temporary
// file. It reads less if the file cannot be written. The caller must call
// Discard.
func ReadAheadSpooled(body io.ReadCloser, inMemory int, inFile int64) *Ahead {
	b := &Ahead{ReadCloser: body, spool: spool{inMemory: inMemory, inFile: inFile}, done: make(chan struct{})}
	go b.run()
	return b
}

// run reads the prefix. It returns when the body ends or fails, as it does when
// the caller closes it, or after at most one more read once Stop was called.
func (b *Ahead) run() {
	defer close(b.done)
	chunk := make([]byte, 4<<10)
	for {
		b.mu.Lock()
		room := b.spool.room()
		ended := b.stopped || room == 0 || b.err != nil
		b.mu.Unlock()
		if ended {
			return
		}
		n, err := b.ReadCloser.Read(chunk[:min(room, int64(len(chunk)))])
		b.mu.Lock()
		b.spool.add(chunk[:n])
		b.err = err
		b.mu.Unlock()
	}
}

// Done is closed when no more is read in the background.
func (b *Ahead) Done() <-chan struct{} { return b.done }

// Stop makes the reading in the background end with the next bytes. It returns
// what was read into memory, and whether the body has ended.
func (b *Ahead) Stop() (prefix []byte, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	return b.spool.memory, b.err != nil
}

// Discard deletes the temporary file, after Done. The body must not be read
// any more.
func (b *Ahead) Discard() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spool.discard()
}

// Read stops the reading in the background, and returns the prefix, then the
// rest of the body.
func (b *Ahead) Read(p []byte) (int, error) {
	b.Stop()
	if n, err := b.readPrefix(p); n > 0 || err != nil || len(p) == 0 {
		return n, err
	}
	<-b.done
	if n, err := b.readPrefix(p); n > 0 || err != nil {
		return n, err
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// readPrefix reads what was read in the background, and returns 0 at its end.
func (b *Ahead) readPrefix(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := b.spool.readAt(p, b.read)
	b.read += int64(n)
	return n, err
}
