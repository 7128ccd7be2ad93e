package cooldown

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// WriteStill says which cooldowns hold all the same, and how to lift each. One
// that closes an account which moves is not lifted as others are.
func WriteStill(out io.Writer, still []Report, at time.Time) {
	for _, c := range still {
		if move, moves := c.move(); moves {
			fmt.Fprintf(out, "closed: %v\n", &MoveError{move})
			continue
		}
		budget := ""
		if c.Budget != nil {
			budget = *c.Budget
		}
		fmt.Fprintf(out, "still in cooldown: %s %s; %s lifts that\n", human.Scope(c.Account, budget), Text(c.Until, at, c.Reason), human.ClearCommand(c.Account, budget))
	}
}

// Text says when a cooldown ends, and why it was set.
func Text(until, at time.Time, reason string) string {
	return fmt.Sprintf("until %s (in %s): %s", human.Time(until), human.Duration(until.Sub(at)), human.Name(cmp.Or(reason, "-")))
}

// Ends returns when a cooldown ends and in how long, for a table: dashes for
// one that closes an account which has moved, since only a command opens that.
func (r *Report) Ends(at time.Time) (until, in string) {
	if _, moves := r.move(); moves {
		return "-", "-"
	}
	return human.Time(r.Until), human.Duration(r.Until.Sub(at))
}

// Moves returns human.MoveText of a cooldown that closes an account which
// moves, and "" for any other.
func (r *Report) Moves() string {
	move, moves := r.move()
	if !moves {
		return ""
	}
	return human.MoveText(&move)
}

// move returns the Move whose cooldown the report is of, and whether it is of
// one.
func (r *Report) move() (quota.Move, bool) {
	return (&quota.Cooldown{Account: r.Account, Until: r.Until, Reason: r.Reason}).Move()
}
