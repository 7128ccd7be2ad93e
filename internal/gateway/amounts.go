package gateway

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// Amounts are what a call costs in named measures, as JSON and command lines
// write them: input_tokens: 900, and of usd dollars.
type Amounts map[string]json.Number

// newAmounts returns the amounts of measures, nil if there are none.
func newAmounts(measures map[quota.Measure]quota.Units) Amounts {
	var amounts Amounts
	for m, n := range measures {
		if amounts == nil {
			amounts = Amounts{}
		}
		amounts[string(m)] = json.Number(m.Number(n))
	}
	return amounts
}

// Set sets the amounts of a call, and the prices that follow from them. They
// are reserved until the call is settled.
func (a Amounts) Set(table *costs.Table, call *quota.Call) error {
	measures, err := table.ParseAmounts(*call, a)
	if err != nil || len(measures) == 0 {
		return err
	}
	all := maps.Clone(measures)
	for m, n := range call.Measures {
		if _, isGiven := all[m]; !isGiven {
			all[m] = n
		}
	}
	call.Measures, call.Lease = all, max(call.Lease, EstimateLease)
	return nil
}

// Given is a cost that a program gives: nil Units or Amounts that lack a
// measure leave it as it is.
type Given struct {
	Units   *quota.Units `json:"units"`
	Amounts Amounts      `json:"amounts"`
}

// Given returns the cost in the request.
func (s *spendRequest) Given() Given { return Given{s.Units, s.Amounts} }

// settleTo settles a grant to what a program gives, if that is anything.
func settleTo(ctx context.Context, c *client.Client, grant *quota.Grant, given Given) error {
	if given.Units == nil && len(given.Amounts) == 0 {
		return nil
	}
	if len(given.Amounts) > 0 {
		grant.Refresh(ctx) // a price may follow from what is not given
	}
	call := grant.Call()
	measures, err := c.Table().ParseAmounts(call, given.Amounts)
	if err != nil {
		return err
	}
	used := quota.Amounts{Units: call.Units, Calls: 1, Named: measures}
	if given.Units != nil {
		used.Units = *given.Units
	}
	return grant.SettleTo(ctx, used)
}
