package quota

import (
	"context"
	"time"
)

// RequestOptions are what the context of one request says about its spend, for
// servers that send the requests of others. The zero value says nothing.
type RequestOptions struct {
	// Key is the Key of a Transport's calls, whatever Price finds; "" leaves it
	// to Price.
	Key string

	// MaxWait takes the place of the Transport's MaxWait; nil leaves that.
	MaxWait *time.Duration

	// WaitUntil, once it is closed, ends all waits for units: a call is granted
	// then or refused, as it would be at the end of its wait. It is for servers
	// that stop, whose clients should learn when to come back.
	WaitUntil <-chan struct{}

	// Uninterrupted means that the end of the context does not interrupt a spend
	// that the ledger is deciding; waits for units still end with it, and its
	// deadline holds. A ledger has timeouts of its own, and a spend that it can
	// decide in the caller's goroutine takes up to half as long. It is for
	// servers, whose contexts end when the client hangs up.
	Uninterrupted bool

	// Granted is called with the grant that was charged for a request which is
	// answered, before the answer is read. nil is a no-op.
	Granted func(*Grant)
}

type requestOptionsKey struct{}

// WithRequestOptions returns a copy of ctx with the options that change makes
// of those of ctx.
func WithRequestOptions(ctx context.Context, change func(*RequestOptions)) context.Context {
	options := *requestOptionsOf(ctx)
	change(&options)
	return context.WithValue(ctx, requestOptionsKey{}, &options)
}

var noRequestOptions RequestOptions

func requestOptionsOf(ctx context.Context) *RequestOptions {
	if options, ok := ctx.Value(requestOptionsKey{}).(*RequestOptions); ok {
		return options
	}
	return &noRequestOptions
}
