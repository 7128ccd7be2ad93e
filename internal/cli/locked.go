package cli

import (
	"io"
	"sync"
)

// NewLocked returns a writer to out that lets one goroutine write at a time.
func NewLocked(out io.Writer) io.Writer { return &lockedWriter{out: out} }

type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
