package report

import (
	"cmp"
	"context"
	"slices"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// NewestRefusal returns the newest refusal of any host that the logs of c have,
// or nil if they have none. It says what follows from the logs: neither
// RetryAt, Detail nor Kept.
func NewestRefusal(ctx context.Context, c *client.Client) (*client.Refusal, error) {
	balances, err := c.Guard().Balances(ctx)
	if err != nil {
		return nil, err
	}
	var newest *client.Refusal
	for _, account := range c.Table().Accounts() {
		for e, err := range c.Guard().Entries(ctx, quota.Query{Account: account, Newest: true}) {
			if err != nil {
				return nil, err
			}
			i := slices.IndexFunc(balances, func(b quota.Balance) bool {
				return b.Budget.Account == account && b.Budget.Name == e.Budget
			})
			if isKnown := i >= 0 || e.Budget == ""; e.Kind != quota.EntryRefused || !isKnown {
				continue
			}
			if newest != nil && newest.At.After(e.At) {
				break
			}
			var b *quota.Balance
			if i >= 0 {
				b = &balances[i]
			}
			if newest, err = refusalOf(ctx, c, account, &e, b); err != nil {
				return nil, err
			}
			break
		}
	}
	return newest, nil
}

// refusalOf returns a refusal in a log by a budget, or by a cooldown of the
// account if b is nil.
func refusalOf(ctx context.Context, c *client.Client, account string, e *quota.Entry,
	b *quota.Balance) (*client.Refusal, error) {
	call, _ := c.Table().Call(account, e.Method) // its price may be gone
	r := &client.Refusal{At: human.JSONTime(e.At), Host: e.Host, Ledger: c.LedgerName(), Account: account,
		Budget: human.Optional(e.Budget), Key: human.Optional(e.Key), Method: e.Method,
		Region: cmp.Or(e.Caller.Region, "-"), Job: cmp.Or(e.Caller.Job, "-"), Lane: cmp.Or(e.Caller.Lane, "-"),
		Reason: string(quota.ReasonCooldown), Units: call.Units, Measure: quota.ByUnits.String()}
	if b != nil {
		r.Measure, r.OfKey = b.Budget.Measure.String(), b.Budget.PerKey
		r.Needed, r.Limit = b.Budget.Amount(&call), cmp.Or(b.StricterLimit, b.Budget.LimitOf(e.Key))
		if b.StricterLimit > 0 {
			r.ConfiguredLimit = b.Budget.LimitOf(e.Key)
		}
		found, err := usage.Explain(ctx, c.Guard(), r.RefusedError(), e.At)
		if err != nil {
			return nil, err
		}
		isInFlight := b.Budget.Window.Kind() == engine.InFlight // of which the log does not say what it held
		if isInFlight || len(b.Budget.Floor) > 0 || found.Held+r.Needed > r.Limit {
			r.Reason = string(quota.ReasonSpent)
		}
		if !isInFlight {
			r.Remaining = max(0, r.Limit-found.Held)
		}
	}
	r.Message = r.RefusedError().Short()
	return r, nil
}
