package quota

import (
	"context"
	"fmt"
	"net/http"
)

// chain is the Transports that a request is passing through, in its context.
// It finds what has no Unwrap, too.
type chain struct {
	transport *Transport
	account   string // charged for the request; empty when it was passed through
	outer     *chain
}

type chainKey struct{}

func chainFrom(ctx context.Context) *chain {
	c, _ := ctx.Value(chainKey{}).(*chain)
	return c
}

func (c *chain) into(ctx context.Context) context.Context {
	return context.WithValue(ctx, chainKey{}, c)
}

// check returns an error if a request has passed this Transport before, or was
// charged to this account, or if a Transport below is known to charge it again.
func (c *chain) check(req *http.Request, base http.RoundTripper) error {
	for outer := c.outer; outer != nil; outer = outer.outer {
		if outer.transport == c.transport {
			return errCycle()
		}
		if c.account != "" && outer.account == c.account {
			return errTwice(c.account)
		}
	}
	for range maxUnwrap {
		switch b := base.(type) {
		case *Transport:
			if b == c.transport {
				return errCycle()
			}
			if b.Price != nil && c.account != "" {
				if call, err := b.Price(req); err == nil && call.Account == c.account {
					return errTwice(c.account)
				}
			}
			base = b.base()
		case interface{ Unwrap() http.RoundTripper }:
			base = b.Unwrap()
		default:
			return nil
		}
	}
	return nil
}

func errCycle() error {
	return fmt.Errorf("%w: the Base of a quota.Transport leads back to itself (a nil Base is http.DefaultTransport); set Base to the transport that sends: what http.DefaultTransport was before, or &http.Transport{}", ErrGuardedTwice)
}

func errTwice(account string) error {
	return fmt.Errorf("%w: two quota.Transports in one chain charge account %q for the same request; guard the client once, and give the outer one a Base without a guard", ErrGuardedTwice, account)
}
