package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
)

// limitRequest is the body of POST /v1/limit: a request that a client of the
// program has made.
type limitRequest struct {
	Client   string `json:"client"`
	Limit    int64  `json:"limit"`
	Window   span   `json:"window"`
	Estimate bool   `json:"estimate"`
}

// Limit is what is left of the limit of a program's own client, in JSON.
// Command ration prints the same.
type Limit struct {
	Allowed    bool       `json:"allowed"`
	Client     string     `json:"client"`
	Limit      int64      `json:"limit"`
	Remaining  int64      `json:"remaining"`
	NextFreeAt *time.Time `json:"next_free_at"`
	RetryAfter *int64     `json:"retry_after_s"`
	RetryAt    *time.Time `json:"retry_at"`

	left inbound.Balance
}

// NewLimit counts a request of a client against a limit, if it fits.
func NewLimit(ctx context.Context, c *client.Client, who string, limit inbound.Limit) (*Limit, error) {
	if who == "" {
		return nil, fmt.Errorf("%w: no client; name it, such as by its address", quota.ErrBadCall)
	}
	if limit.Per == 0 {
		return nil, fmt.Errorf("%w: no window; say over which time the limit is, such as 1m", quota.ErrBadCall)
	}
	allowed, left, err := c.Limit(ctx, who, limit)
	if err != nil {
		return nil, err
	}
	l := &Limit{Allowed: allowed, Client: who, Limit: left.Limit, Remaining: left.Remaining, left: left}
	if free := human.OptionalTime(left.NextFree.UTC()); allowed {
		l.NextFreeAt = free
	} else {
		l.RetryAt, l.RetryAfter = free, new(left.RetryAfter())
	}
	return l, nil
}

// Describe says whether the request may be answered, and what is left.
func (l *Limit) Describe() string {
	if l.Allowed {
		return fmt.Sprintf("allowed: %s has %d of %s left", human.Name(l.Client), l.Remaining, l.left.Name)
	}
	return fmt.Sprintf("%s has reached the limit of %s; try again at %s (in %s)",
		human.Name(l.Client), l.left.Name, human.Time(*l.RetryAt),
		human.Duration(time.Duration(*l.RetryAfter)*time.Second))
}

// limitProblem is the answer to a request that does not fit. Its members are
// those of a Limit too.
type limitProblem struct {
	*problem
	*Limit
}

// limit answers POST /v1/limit.
func (g *Gateway) limit(w http.ResponseWriter, r *http.Request, c *connected) {
	var asked limitRequest
	err := g.readJSON(w, r, &asked)
	var l *Limit
	if err == nil {
		limit := inbound.Limit{Calls: asked.Limit, Per: time.Duration(asked.Window), Estimate: asked.Estimate}
		l, err = NewLimit(r.Context(), c.Client, asked.Client, limit)
	}
	if err != nil {
		problemOf(err).write(w)
		return
	}
	inbound.SetHeaders(w.Header(), []inbound.Balance{l.left})
	if l.Allowed {
		g.writeJSON(w, http.StatusOK, l)
		return
	}
	p := newProblem(http.StatusTooManyRequests, "limited", "%s", l.Describe())
	p.header.Set("Retry-After", strconv.FormatInt(*l.RetryAfter, 10))
	p.writeAs(w, &limitProblem{p, l})
}
