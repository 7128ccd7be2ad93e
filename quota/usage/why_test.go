package usage

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestExplainEstimate: a part of a counter's previous period counts, so what
// was used is not the limit minus what is left.
func TestExplainEstimate(t *testing.T) {
	for _, c := range []struct {
		window quota.Window
		short  quota.Units
	}{{quota.Counter(time.Hour), 100}, {quota.Sliding(time.Hour), 190}} {
		e := &Explanation{Held: 240, Window: c.window}
		e.solve(&quota.RefusedError{Reason: quota.ReasonSpent, Budget: "all", Needed: 100, Limit: 150})
		if e.Short != c.short || e.LimitNeeded != 150+c.short {
			t.Errorf("%s: short %d, a limit of %d; want %d short", c.window, e.Short, e.LimitNeeded, c.short)
		}
	}
}

// TestExplainFloors checks that floors are named only for a call
// that would fit without them.
func TestExplainFloors(t *testing.T) {
	for _, c := range []struct {
		held quota.Units
		want bool
	}{{67, true}, {80, true}, {81, false}, {100, false}} {
		e := &Explanation{Held: c.held}
		e.solve(&quota.RefusedError{Reason: quota.ReasonSpent, Budget: "all", Needed: 20, Limit: 100, Kept: 30, Remaining: max(0, 70-c.held)})
		if e.FloorsMattered != c.want {
			t.Errorf("%d used: floors named: %t; want %t", c.held, e.FloorsMattered, c.want)
		}
	}
}
