package feedback

import (
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// budgets find the one that an upstream's limit is about.
type budgets []covering

type covering struct {
	quota.Budget
	coverage *quota.Coverage
}

func newBudgets(list []quota.Budget) budgets {
	var all budgets
	for _, b := range list {
		all = append(all, covering{b, b.Coverage()})
	}
	return all
}

// of returns the budget that a limit of the upstream stands for, or nil: then
// it is the whole account. Only budgets that cover the call are looked at, and
// none that is for some lanes or regions: the upstream knows neither. It is
// the first rule that finds one:
//   - its name is the bucket's, or ends in it after a hyphen;
//   - where buckets are methods' own, it names the call's method, or for the
//     default bucket, which is what the others leave, all but some methods;
//   - it is the only one, the only one that counts calls for a bucket of
//     requests, or units for one of tokens, or the only one of about that limit.
func (all budgets) of(call quota.Call, l limit, byMethod bool) *quota.Budget {
	var found []*quota.Budget
	for i := range all {
		b := &all[i]
		if b.Account == call.Account && len(b.Lanes) == 0 && len(b.Regions) == 0 && b.coverage.Covers(call.Method, call.Caller) {
			found = append(found, &b.Budget)
		}
	}
	only := func(is func(*quota.Budget) bool) *quota.Budget {
		i := slices.IndexFunc(found, is)
		if i < 0 || slices.ContainsFunc(found[i+1:], is) {
			return nil
		}
		return found[i]
	}
	first := func(is func(*quota.Budget) bool) *quota.Budget {
		if i := slices.IndexFunc(found, is); i >= 0 {
			return found[i]
		}
		return nil
	}
	if b := first(func(b *quota.Budget) bool { return named(b, l.bucket) }); b != nil {
		return b
	}
	if byMethod && l.bucket != "" && l.bucket != defaultBucket {
		return first(func(b *quota.Budget) bool { return slices.Contains(b.Methods, call.Method) })
	}
	if byMethod {
		return first(func(b *quota.Budget) bool { return len(b.Except) > 0 && len(b.Methods) == 0 })
	}
	var b *quota.Budget
	switch {
	case len(found) == 1:
		return found[0]
	case strings.Contains(l.bucket, "token"):
		b = only(func(b *quota.Budget) bool { return b.Measure == quota.ByUnits })
	case strings.Contains(l.bucket, "request"):
		b = only(func(b *quota.Budget) bool { return b.Measure == quota.Calls })
	}
	if b == nil {
		b = only(func(b *quota.Budget) bool { return about(b, l) })
	}
	return b
}

// about reports whether a limit is as high as a budget's, or up to twice as high.
func about(b *quota.Budget, l limit) bool { return l.max >= b.Limit && l.max <= 2*b.Limit }

// named reports whether a budget's name is a bucket's.
func named(b *quota.Budget, bucket string) bool {
	plain := strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace
	name, bucket := plain(strings.ToLower(b.Name)), plain(bucket)
	return bucket != "" && (name == bucket || strings.HasSuffix(name, "-"+bucket))
}

// longest returns the longest cooldown that an answer may ask for: the longest
// window of the account's budgets.
func (all budgets) longest(account string) time.Duration {
	most := time.Duration(0)
	for i := range all {
		if all[i].Account == account {
			most = max(most, length(all[i].Window))
		}
	}
	if most == 0 {
		return MaxRetryAfter
	}
	return most
}

func length(w quota.Window) time.Duration {
	if w.Kind() == quota.KindDaily {
		return w.Horizon()
	}
	return w.Length()
}

// nearReset is so close to a reset that an answer may be of the window before.
const nearReset = 2 * quota.DefaultMargin

// speaksOf reports whether what is left of a limit can be compared with a
// budget: both count the same, so far as can be seen. A limit whose name is not the
// budget's must be about as high: others are of a minute instead of a day, or
// of requests instead of units. Near its reset the answer may be of the window that ended.
func speaksOf(b *quota.Budget, l limit) bool {
	switch {
	case b.Window.Estimate(), l.left >= b.Limit, l.reset != unknownReset && l.reset <= nearReset, l.max >= 0 && differs(b, l):
		return false
	}
	return named(b, l.bucket) || about(b, l)
}

// differs reports whether a limit cannot be the one that a budget keeps to: it
// is lower, or so much higher that another one is probably meant, unless the
// budget's name says that it is this one.
func differs(b *quota.Budget, l limit) bool {
	return l.max < b.Limit || l.max > 2*b.Limit && !named(b, l.bucket)
}
