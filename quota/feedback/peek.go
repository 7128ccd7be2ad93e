package feedback

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/files"
)

// peekTime is how long peek waits for a body. It is the longest delay that an
// upstream causes which sends headers and then stalls.
const peekTime = 3 * time.Second

// peek returns at most limit bytes of the body of a response, decompressed, and
// whether that is all of it. It returns what has come after peekTime, when the
// request's context ends, or at once if the first byte that is not a space is
// not wanted; a nil isWanted wants all. It replaces the body with one that
// reads the same: the bytes read, then the rest or the error.
func peek(resp *http.Response, limit int, isWanted func(byte) bool) (body []byte, whole bool) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil, true
	}
	first := &firstByte{ReadCloser: resp.Body, isWanted: isWanted, other: make(chan struct{})}
	ahead := files.ReadAhead(first, limit+1)
	resp.Body = ahead
	ctx := context.Background()
	if resp.Request != nil {
		ctx = resp.Request.Context()
	}
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	select {
	case <-ahead.Done():
	case <-first.other:
	case <-ctx.Done():
	}
	body, whole = ahead.Stop()
	if len(body) > limit {
		body, whole = body[:limit], false
	}
	plain, isUnpacked := gunzip(resp, body)
	return plain, whole && isUnpacked
}

// firstByte is a body that closes other if its first byte that is not a space
// is not wanted.
type firstByte struct {
	io.ReadCloser
	isWanted func(byte) bool
	other    chan struct{}
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if text := bytes.TrimLeft(p[:n], " \t\r\n\ufeff"); len(text) > 0 && f.isWanted != nil {
		if !f.isWanted(text[0]) {
			close(f.other)
		}
		f.isWanted = nil
	}
	return n, err
}

// gunzip decompresses at most maxBody bytes of a body, and returns whether that
// is all of it. net/http leaves a body compressed if the caller asked for gzip
// itself. A program that reports an answer has most often decompressed its
// body, and left the header.
func gunzip(resp *http.Response, body []byte) (plain []byte, whole bool) {
	isPacked := bytes.HasPrefix(body, []byte("\x1f\x8b"))
	if !isPacked || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return body, true
	}
	packed, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false
	}
	plain, err = io.ReadAll(io.LimitReader(packed, maxBody+1))
	if len(plain) > maxBody {
		return plain[:maxBody], false
	}
	return plain, err == nil
}
