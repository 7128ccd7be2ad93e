package quota

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// Config says where a budget is configured. Processes may share a ledger and
// have different configurations by mistake. Of their limits for one budget, the
// lowest holds: see Ledger. The zero Config is unknown.
type Config struct {
	Name    string    // unique among the configurations of a ledger, such as a host and a path
	Changed time.Time // when it was changed last
}

// maxIdentity is the most bytes in a charge's identity.
const maxIdentity = 255

// identity returns a text that is equal for the charges of one budget, whatever
// their limits and floors: its name, its window without the margin, and its
// coverage without external usage, which depends on the other budgets.
func (c *charge) identity() string {
	coverage := *c.coverage
	coverage.Methods = withoutExternal(coverage.Methods)
	coverage.Except = withoutExternal(coverage.Except)
	identity := strconv.Quote(c.Name) + " " + c.Window.WithMargin(0).String() + " " + coverage.Text()
	if len(identity) > maxIdentity {
		sum := sha256.Sum256([]byte(identity))
		return hex.EncodeToString(sum[:])
	}
	return identity
}

func withoutExternal(methods []string) []string {
	return slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return strings.HasPrefix(m, externalLabel) })
}

// limitNote says why a limit holds that is lower than the caller's own, or
// nothing if own is 0.
func limitNote(m Measure, limit, own Units, until time.Time) string {
	if own == 0 {
		return ""
	}
	return fmt.Sprintf("; another configuration's limit of %s holds instead of %s, until %s at least: give both the "+
		"same limit or, if that one is no longer in use, forget its limit (ration ledger accept)",
		m.Number(limit), m.Number(own), human.Time(until))
}

// AcceptLimits forgets the limits that other configurations have asked of the
// account's budgets. Each holds again from the next call of a process that
// still has such a configuration.
func (g *Guard) AcceptLimits(ctx context.Context, account string) error {
	defer g.refusals.invalidate()
	return opError("accept limits of "+account, g.Account(account).EndLimits(ctx))
}
