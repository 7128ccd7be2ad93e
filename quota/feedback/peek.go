package feedback

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// peekTime bounds how long peek waits for a body. An upstream that stalls
// afterwards delays the answer by this much.
const peekTime = 3 * time.Second

// peek returns a response's body if it ends within most bytes, within peekTime
// and before the request's context does, and nil otherwise. It puts back a body
// that reads the same: the bytes read, and then what follows, or the error that
// did.
func peek(resp *http.Response, most int) []byte {
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil
	}
	ahead := &readAhead{ReadCloser: resp.Body, most: most + 1, done: make(chan struct{})}
	resp.Body = ahead
	go ahead.run()
	timer := time.NewTimer(peekTime)
	defer timer.Stop()
	var canceled <-chan struct{}
	if resp.Request != nil {
		canceled = resp.Request.Context().Done()
	}
	select {
	case <-ahead.done:
	case <-timer.C:
	case <-canceled:
	}
	return ahead.whole(most)
}

// readAhead is a body of which the beginning is read in the background.
type readAhead struct {
	io.ReadCloser
	most int
	done chan struct{} // closed when the reading in the background has ended

	mu     sync.Mutex
	begin  []byte
	read   int   // of begin, by the caller
	err    error // that followed begin
	enough bool  // read no further in the background
}

// run reads the beginning. It ends when the body does or fails, which closing
// it brings about, or after one more read once the caller reads or has waited
// long enough.
func (a *readAhead) run() {
	defer close(a.done)
	chunk := make([]byte, 4<<10)
	for {
		a.mu.Lock()
		room := a.most - len(a.begin)
		ended := a.enough || room == 0 || a.err != nil
		a.mu.Unlock()
		if ended {
			return
		}
		n, err := a.ReadCloser.Read(chunk[:min(room, len(chunk))])
		a.mu.Lock()
		a.begin, a.err = append(a.begin, chunk[:n]...), err
		a.mu.Unlock()
	}
}

// whole returns the body if it has ended within most bytes. From then on
// nothing more is read in the background.
func (a *readAhead) whole(most int) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enough = true
	if a.err == nil || len(a.begin) > most {
		return nil
	}
	return a.begin
}

// Read returns the beginning first.
func (a *readAhead) Read(p []byte) (int, error) {
	if n := a.next(p); n > 0 || len(p) == 0 {
		return n, nil
	}
	<-a.done
	if n := a.next(p); n > 0 {
		return n, nil
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.ReadCloser.Read(p)
}

func (a *readAhead) next(p []byte) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := copy(p, a.begin[a.read:])
	a.read += n
	return n
}

// unpacked returns a body that a caller asked for in gzip, which net/http then
// leaves as it is. It is nil if it has more than most bytes, or cannot be read.
func unpacked(resp *http.Response, body []byte, most int) []byte {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") || len(body) == 0 {
		return body
	}
	packed, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(io.LimitReader(packed, int64(most)+1))
	if err != nil || len(plain) > most {
		return nil
	}
	return plain
}
