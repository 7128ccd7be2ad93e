package gateway

import (
	"context"
	"net"
	"net/http"
	"time"
)

// SetLimits makes all limits of a gateway that serves nothing yet the same.
func (g *Gateway) SetLimits(d time.Duration) { g.limits = limits{d, d, d, d} }

// ServeWithin is Serve with other limits of connections.
func ServeWithin(ctx context.Context, l net.Listener, handler http.Handler, grace, times time.Duration) error {
	return serve(ctx, l, handler, grace, serverTimes{times, times, times})
}

// MaxWait is the longest wait of a request.
const MaxWait = maxWait
