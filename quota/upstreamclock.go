package quota

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// upstreamClocks are the clocks of the upstreams, as their answers show them:
// the third clock, for when those of the ledger and of this host disagree. The
// time since an answer is monotonic, so it does not change when this host's
// clock is set. The zero value is ready to use.
type upstreamClocks struct {
	mu     sync.Mutex
	last   map[string]heardDate   // by account
	doubts map[string]*ClockError // by account: of this host, not yet reported
}

// heardDate is the Date of an answer, the Age that a cache gave it, and when it
// arrived. The headers are parsed when they are asked for, which is seldom.
type heardDate struct {
	date, age string
	arrived   time.Time
}

// now returns the time that the answer implies, or zero if it does not say.
func (h heardDate) now() time.Time {
	date, err := http.ParseTime(h.date)
	if err != nil {
		return time.Time{}
	}
	if age, err := strconv.Atoi(h.age); err == nil && age > 0 {
		date = date.Add(time.Duration(age) * time.Second)
	}
	return date.Add(time.Since(h.arrived))
}

// recordDate takes the Date of an answer into account, if it has one.
func (c *upstreamClocks) recordDate(account string, resp *http.Response) {
	date := resp.Header.Get("Date")
	if date == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[string]heardDate{}
	}
	c.last[account] = heardDate{date, resp.Header.Get("Age"), time.Now()}
}

// now returns the time of an account's upstream, or zero if it is not known.
func (c *upstreamClocks) now(account string) (now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if heard, ok := c.last[account]; ok {
		now = heard.now()
	}
	return now
}

// since is now if the latest answer arrived after a time, and zero otherwise.
func (c *upstreamClocks) since(account string, after time.Time) time.Time {
	c.mu.Lock()
	arrived := c.last[account].arrived
	c.mu.Unlock()
	if !arrived.After(after) {
		return time.Time{}
	}
	return c.now(account)
}

// takeDoubt returns the error for which the upstream's clock was asked and
// supported the ledger's, once.
func (c *upstreamClocks) takeDoubt(account string) *ClockError {
	c.mu.Lock()
	defer c.mu.Unlock()
	doubt := c.doubts[account]
	delete(c.doubts, account)
	return doubt
}

// decide asks the ledger for a decision. If the ledger's clock is ahead of this
// host's and the upstream's supports it, this host's is wrong, and the decision
// is made by the other two.
func (g *Guard) decide(ctx context.Context, batch *Batch) ([]Answer, error) {
	answers, err := g.ledger.Spend(ctx, batch)
	if err == nil {
		return answers, nil
	}
	stopped, ok := errors.AsType[*ClockError](err)
	if !ok {
		return answers, err
	}
	upstream := g.upstreams.now(batch.Account)
	if upstream.IsZero() {
		return answers, err
	}
	seen := *stopped // which other calls may share
	seen.Upstream = upstream
	if seen.Ledger.Sub(upstream) > MaxClockLead {
		return nil, &seen
	}
	again := *batch
	again.Clock = upstream
	answers, err = g.ledger.Spend(ctx, &again)
	if err == nil {
		g.upstreams.mu.Lock()
		if g.upstreams.doubts == nil {
			g.upstreams.doubts = map[string]*ClockError{}
		}
		g.upstreams.doubts[batch.Account] = &seen
		g.upstreams.mu.Unlock()
	}
	return answers, err
}
