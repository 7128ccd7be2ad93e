package report

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// WriteStill says which cooldowns hold all the same, and how to lift each. An
// account that moves is not opened as a cooldown is lifted.
func WriteStill(out io.Writer, still []Cooldown, at time.Time) {
	for _, c := range still {
		if c.Move != nil {
			fmt.Fprintf(out, "closed: %v\n", &MoveError{c.Move})
			continue
		}
		budget, key := human.Given(c.Budget), human.Given(c.Key)
		fmt.Fprintf(out, "still in cooldown: %s %s; %s lifts that\n", human.Scope(c.Account, budget, key),
			CooldownText(c.Until, at, c.Reason), human.ClearCommand(c.Account, budget, key))
	}
}

// CooldownText says when a cooldown ends, and why it was set.
func CooldownText(until, at time.Time, reason string) string {
	return fmt.Sprintf("until %s (in %s): %s", human.Time(until), human.Duration(until.Sub(at)),
		human.Name(cmp.Or(reason, "-")))
}

// Ends returns when a cooldown ends and in how long, for a table: dashes for an
// account that moves, since only a command opens that.
func (r *Cooldown) Ends(at time.Time) (until, in string) {
	if r.Move != nil {
		return "-", "-"
	}
	return human.Time(r.Until), human.Duration(r.Until.Sub(at))
}

// Moves says where an account is that moves, and what to do; it is "" for a
// cooldown.
func (r *Cooldown) Moves() string {
	if r.Move == nil {
		return ""
	}
	return r.Move.Error()
}
