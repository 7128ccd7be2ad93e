package youtube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// The bounds of one answer. A page of 50 videos has at most some 500 KB and
// arrives within a second.
const (
	maxAnswer     = 16 << 20
	maxAnswerTime = time.Minute
)

// NewBase returns a clone of http.DefaultTransport with bounds on each answer:
// a body of 16 MiB, headers of 1 MiB, 30 seconds until the headers arrive, and
// one minute until the body is read.
func NewBase() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 30 * time.Second
	t.MaxResponseHeaderBytes = 1 << 20
	t.MaxIdleConnsPerHost = 16
	return &boundedTransport{t}
}

// boundedTransport limits the time and the size of answers.
type boundedTransport struct{ base http.RoundTripper }

var errSlow = fmt.Errorf("the upstream's answer took more than %s", maxAnswerTime)

func (b *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), maxAnswerTime, errSlow)
	resp, err := b.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswer, ctx: ctx, cancel: cancel}
	return resp, nil
}

// Unwrap returns the base transport.
func (b *boundedTransport) Unwrap() http.RoundTripper { return b.base }

type boundedBody struct {
	io.ReadCloser
	left   int64
	ctx    context.Context
	cancel func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the upstream's answer has more than %d MB", maxAnswer>>20)
	}
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
