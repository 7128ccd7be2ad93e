package quota

import (
	"context"
	"fmt"
	"net/http"
)

// nesting is a Transport that a request is passing through, and those outside
// it. It travels in the request's context, and so also finds Transports inside
// RoundTrippers that have no Unwrap.
type nesting struct {
	transport *Transport
	account   string // the account that the Transport charges; empty if it charges none
	outer     *nesting
}

type nestingKey struct{}

func nestingFrom(ctx context.Context) *nesting {
	n, _ := ctx.Value(nestingKey{}).(*nesting)
	return n
}

func (n *nesting) into(ctx context.Context) context.Context {
	return context.WithValue(ctx, nestingKey{}, n)
}

// check returns an ErrGuardedTwice if a request has passed this Transport
// before, was charged to the same account, or would be by a Transport that Base
// wraps.
func (n *nesting) check(req *http.Request, base http.RoundTripper) error {
	for outer := n.outer; outer != nil; outer = outer.outer {
		if outer.transport == n.transport {
			return errCycle()
		}
		if n.account != "" && outer.account == n.account {
			return errTwice(n.account)
		}
	}
	for range maxUnwrap {
		switch b := base.(type) {
		case *Transport:
			if b == n.transport {
				return errCycle()
			}
			if b.Price != nil && n.account != "" {
				if call, err := b.Price(req); err == nil && call.Account == n.account {
					return errTwice(n.account)
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
	return fmt.Errorf("%w: the Base of a quota.Transport leads back to itself (a nil Base is "+
		"http.DefaultTransport); set Base to the transport that sends: what http.DefaultTransport was before, or "+
		"&http.Transport{}", ErrGuardedTwice)
}

func errTwice(account string) error {
	return fmt.Errorf("%w: two quota.Transports in one chain charge account %q for the same request; guard the "+
		"client once, and give the outer one a Base without a guard", ErrGuardedTwice, account)
}
