package quota

import (
	"context"
	"io"
	"net/http"
)

// endAtEnd ends the lease of a grant once the body of its answer was read to
// its end or closed.
func (t *Transport) endAtEnd(resp *http.Response, call Call, grant *Grant) {
	isSwitched := resp.StatusCode == http.StatusSwitchingProtocols // and goes on; the lease ends by itself
	if isSwitched || !grant.hasLease() {
		return
	}
	ctx := context.WithoutCancel(resp.Request.Context())
	end := func() { t.succeeded(call, grant.End(ctx)) }
	if resp.Body == nil || resp.Body == http.NoBody {
		end()
		return
	}
	resp.Body = &endBody{resp.Body, end}
}

// hasLease reports whether the grant may have a lease that was not ended.
func (g *Grant) hasLease() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isOpen
}

// endBody calls end, which is idempotent, when it was read to its end or
// closed.
type endBody struct {
	io.ReadCloser
	end func()
}

func (b *endBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

func (b *endBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
