package report

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// TestOnlyFloorsThatRefuseAreNamed: floors are named only for a call that would
// fit without them.
func TestOnlyFloorsThatRefuseAreNamed(t *testing.T) {
	budget := "all"
	for _, c := range []struct {
		held quota.Units
		want bool
	}{{67, true}, {80, true}, {81, false}, {100, false}} {
		d := &Why{Refusal: &client.Refusal{Reason: string(quota.ReasonSpent), Budget: &budget, Needed: 20, Limit: 100,
			Kept: 30, Remaining: max(0, 70-c.held)}}
		d.set(&usage.Explanation{Held: c.held}, 0)
		if got := strings.Contains(strings.Join(d.Helped, "; "), "floors"); got != c.want {
			t.Errorf("%d used: floors named: %t; want %t", c.held, got, c.want)
		}
	}
}
