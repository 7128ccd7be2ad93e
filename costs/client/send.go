package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ration-dev/ration/quota"
)

// errNotOpened is the error of a zero Client.
var errNotOpened = &ConfigError{errors.New(
	"client: this Client was not opened; make one with client.Open or client.New")}

// RoundTrip charges a request and sends it, as quota.Transport.RoundTrip does.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.transport == nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errNotOpened
	}
	return c.transport.RoundTrip(req)
}

// CloseIdleConnections closes the idle connections of Options.Base.
func (c *Client) CloseIdleConnections() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// NewTransport returns another RoundTripper on the same ledger, with its own
// limits for waits and retries. set may change any field of its
// quota.Transport; Guard, Price, Feedback, Report, Base and MaxWait are preset
// from the Client. A nil set changes nothing.
func (c *Client) NewTransport(set func(*quota.Transport)) http.RoundTripper {
	return c.newTransport(set)
}

func (c *Client) newTransport(set func(*quota.Transport)) *quota.Transport {
	t := &quota.Transport{Guard: c.guard, Price: c.table.Price, Feedback: c.feedback, Report: c.report,
		Base: c.options.Base, MaxWait: c.options.MaxWait}
	if set != nil {
		set(t)
	}
	return t
}

// SpendTogether charges calls that are sent by other means, and whose answers
// are passed to Answered; see quota.Transport.SpendTogether.
func (c *Client) SpendTogether(
	ctx context.Context, call quota.Call, count int, maxWait time.Duration,
) ([]*quota.Grant, error) {
	if c.transport == nil {
		return nil, errNotOpened
	}
	if count > 1 {
		c.outages.hold()
		defer c.outages.release()
	}
	return c.transport.SpendTogether(ctx, call, count, maxWait)
}

// Answered applies an upstream's answer to a call that this Client's Guard has
// granted and that was sent by other means; see quota.Transport.Answered.
func (c *Client) Answered(
	ctx context.Context, call quota.Call, grant *quota.Grant, resp *http.Response,
) (quota.Verdict, error) {
	if c.transport == nil {
		return quota.Verdict{}, errNotOpened
	}
	return c.transport.Answered(ctx, call, grant, resp)
}
