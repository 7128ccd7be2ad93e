package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Budget is a named limit over a window, on calls of one account: all of
// them, or those that Methods, Except, Lanes and Regions name. A call is
// charged to every budget that covers it, or to none. Budgets are plain
// values; a changed limit or window holds at once over what is recorded.
type Budget struct {
	Account string
	Name    string // unique within its account
	Limit   Units  // the most that Window may hold, 1 to MaxLimit
	Window  Window
	Measure Measure // ByUnits, or Calls

	Methods []string // covers these methods; empty: all
	Except  []string // covers none of these
	Lanes   []string // covers calls of these lanes; empty: all
	Regions []string // covers calls of these regions; empty: all
}

// Coverage returns which calls b covers and how it measures them.
func (b *Budget) Coverage() *Coverage {
	return NewCoverage(Coverage{Measure: b.Measure, Methods: b.Methods, Except: b.Except, Lanes: b.Lanes, Regions: b.Regions})
}

func (b *Budget) check() error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if b.Account == "" {
		complain("no account: name the upstream project whose quota it is")
	}
	if b.Name == "" {
		complain("no name: give it one, unique in its account")
	}
	if len(b.Account) > maxName || len(b.Name) > maxName {
		complain("a name of more than %d bytes: shorten it", maxName)
	}
	if b.Limit < 1 || b.Limit > MaxLimit {
		complain("a limit of %d: give one from 1 to %d", b.Limit, MaxLimit)
	}
	if b.Measure > Calls {
		complain("an unknown measure: give quota.ByUnits or quota.Calls")
	}
	for _, list := range [][]string{b.Methods, b.Except, b.Lanes, b.Regions} {
		if slices.Contains(list, "") {
			complain("an empty word in what it covers: remove it")
			break
		}
	}
	if err := b.Window.check(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("budget %q: %w", b.Name, errors.Join(errs...))
}

// maxName bounds the names of accounts, keys and budgets, in bytes.
const maxName = 256

// Coverage is which calls are counted, and by which measure. Budgets with
// equal coverage share what a ledger keeps for it. It is read-only once made.
type Coverage struct {
	Measure Measure
	Methods []string
	Except  []string
	Lanes   []string
	Regions []string

	key string
}

// NewCoverage returns c with its lists sorted and its Key made.
func NewCoverage(c Coverage) *Coverage {
	lists := []*[]string{&c.Methods, &c.Except, &c.Lanes, &c.Regions}
	var key strings.Builder
	if c.Measure == Calls {
		key.WriteString("calls")
	}
	for i, list := range lists {
		sorted := slices.Clone(*list)
		slices.Sort(sorted)
		*list = slices.Compact(sorted)
		if len(*list) == 0 {
			continue
		}
		key.WriteByte("mxlr"[i])
		for _, word := range *list {
			key.WriteString(strconv.Quote(word))
		}
	}
	c.key = key.String()
	return &c
}

// Key returns a stable name of the coverage, equal for equal coverages. It is
// empty for the units of all calls: the log itself.
func (c *Coverage) Key() string { return c.key }

// Covers reports whether a call of this method and caller is counted.
func (c *Coverage) Covers(method string, caller Caller) bool {
	in := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	return in(c.Methods, method) && !slices.Contains(c.Except, method) && in(c.Lanes, caller.Lane) && in(c.Regions, caller.Region)
}

// Amount returns what one call of so many units counts for.
func (c *Coverage) Amount(units Units) Units {
	if c.Measure == Calls {
		return 1
	}
	return units
}
