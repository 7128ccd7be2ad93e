package feedback

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota/readahead"
)

// peekTime is how long peek waits for a body. It is the longest delay that an
// upstream causes which sends headers and then stalls.
const peekTime = 3 * time.Second

// peek returns the body of a response if it has at most limit bytes and ends
// within peekTime and before the request's context does, and false otherwise.
// It replaces the body with one that reads the same: the bytes read, then the
// rest or the error.
func peek(resp *http.Response, limit int) (body []byte, whole bool) {
	if resp.Body == nil || resp.Body == http.NoBody {
		return nil, true
	}
	ahead := readahead.New(resp.Body, limit+1)
	resp.Body = ahead
	ctx := context.Background()
	if resp.Request != nil {
		ctx = resp.Request.Context()
	}
	ctx, cancel := context.WithTimeout(ctx, peekTime)
	defer cancel()
	select {
	case <-ahead.Done():
	case <-ctx.Done():
	}
	body, whole = ahead.Stop()
	if !whole || len(body) > limit {
		return nil, false
	}
	return body, true
}

// gunzip decompresses a body. net/http leaves a body compressed if the caller
// asked for gzip itself. A program that reports an answer has most often
// decompressed its body, and left the header. gunzip returns nil if the body is
// malformed or has more than limit bytes.
func gunzip(resp *http.Response, body []byte, limit int) []byte {
	isPacked := bytes.HasPrefix(body, []byte("\x1f\x8b"))
	if !isPacked || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
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
