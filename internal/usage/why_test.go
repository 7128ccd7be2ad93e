package usage

import (
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestOnlyFloorsThatRefuseAreNamed checks that floors are named only for a call
// that would fit without them.
func TestOnlyFloorsThatRefuseAreNamed(t *testing.T) {
	for _, c := range []struct {
		held quota.Units
		want bool
	}{{67, true}, {80, true}, {81, false}, {100, false}} {
		e := &Explanation{Held: c.held}
		e.solve(&quota.RefusedError{Reason: quota.ReasonSpent, Budget: "all", Needed: 20, Limit: 100, Kept: 30,
			Remaining: max(0, 70-c.held)})
		if e.FloorsMattered != c.want {
			t.Errorf("%d used: floors named: %t; want %t", c.held, e.FloorsMattered, c.want)
		}
	}
}
