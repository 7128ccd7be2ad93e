package usage

import (
	"fmt"
	"regexp"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// ofAnswer begins the reason of a cooldown that an upstream's answer has set:
// with its status.
var ofAnswer = regexp.MustCompile(`^[45][0-9]{2}\b`)

// Outside says how much was spent outside ration, if the upstream has said that
// the quota of a calendar budget is spent until its window ends: the upstream
// counts at least what it allows, which is upstream, or the budget's limit if
// that is less. It is "" otherwise.
func Outside(b *quota.Balance, upstream quota.Units) string {
	c := b.Cooldown
	if c == nil || b.Budget.Window.Kind() != engine.Calendar || !ofAnswer.MatchString(c.Reason) {
		return ""
	}
	upstream = max(upstream, b.Limit())
	lasts := !c.Until.Before(b.Budget.Window.Day(b.At).Next.Add(-time.Minute))
	if !lasts || b.Used >= upstream {
		return ""
	}
	number := b.Budget.Measure.Number
	return fmt.Sprintf("the upstream counts at least %s in %s, ration %s: about %s were spent outside ration",
		number(upstream), b.Budget.Name, number(b.Used), b.Budget.Measure.Text(upstream-b.Used))
}
