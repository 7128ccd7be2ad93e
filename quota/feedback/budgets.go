package feedback

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// coveredBudget is a budget with its coverage.
type coveredBudget struct {
	quota.Budget
	coverage *quota.Coverage
}

// match returns the budget that stands for a limit of the upstream, or nil if
// the limit is the whole account's. It considers the budgets that cover the
// call, except those for some lanes or regions, which the upstream does not
// know. The first rule that finds a budget wins:
//   - its name is the bucket's, or ends in it after a hyphen;
//   - if the dialect's buckets belong to methods, it names the call's method, or
//     for the default bucket, it covers all methods but some;
//   - it is the only one, the only one that counts calls (for a bucket of
//     requests) or units (for one of tokens), or the only one with a similar
//     limit.
func (r *reader) match(call quota.Call, l limit) *quota.Budget {
	var found []*quota.Budget
	for i := range r.budgets {
		b := &r.budgets[i]
		global := len(b.Lanes) == 0 && len(b.Regions) == 0
		if global && b.Account == call.Account && b.coverage.Covers(call.Method, call.Caller) {
			found = append(found, &b.Budget)
		}
	}
	first := func(is func(*quota.Budget) bool) *quota.Budget {
		if i := slices.IndexFunc(found, is); i >= 0 {
			return found[i]
		}
		return nil
	}
	only := func(is func(*quota.Budget) bool) *quota.Budget {
		i := slices.IndexFunc(found, is)
		if i < 0 || slices.ContainsFunc(found[i+1:], is) {
			return nil
		}
		return found[i]
	}
	if b := first(func(b *quota.Budget) bool { return named(b, l.bucket) }); b != nil {
		return b
	}
	if r.byMethod && l.bucket != "" && l.bucket != defaultBucket {
		return first(func(b *quota.Budget) bool { return slices.Contains(b.Methods, call.Method) })
	}
	if r.byMethod {
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
		b = only(func(b *quota.Budget) bool { return similar(b, l) })
	}
	return b
}

// similar reports whether a limit is one to two times as high as a budget's.
func similar(b *quota.Budget, l limit) bool { return l.max >= b.Limit && l.max <= 2*b.Limit }

// named reports whether a budget's name is a bucket's.
func named(b *quota.Budget, bucket string) bool {
	plain := strings.NewReplacer("_", "-", " ", "-", ".", "-").Replace
	name, bucket := plain(strings.ToLower(b.Name)), plain(bucket)
	return bucket != "" && (name == bucket || strings.HasSuffix(name, "-"+bucket))
}

// maxCooldown returns the longest cooldown that the reset of a limit may set:
// the window of its budget. Without a budget it is the longest window of the
// account, at most a day.
func (r *reader) maxCooldown(account string, budget *quota.Budget) time.Duration {
	if budget != nil {
		return budget.Window.Horizon()
	}
	var longest time.Duration
	for _, b := range r.budgets {
		if b.Account == account {
			longest = max(longest, b.Window.Horizon())
		}
	}
	return min(cmp.Or(longest, MaxRetryAfter), MaxRetryAfter)
}

// nearReset is how close to a reset a response may describe the window before.
const nearReset = 2 * quota.DefaultMargin

// sameQuota reports whether a budget can be compared with what is left of a
// limit: both appear to count the same thing. A limit without the budget's
// name must be similarly high; others are per minute instead of per day, or
// count requests instead of units. Near its reset a limit may describe the
// window that has just ended.
func sameQuota(b *quota.Budget, l limit) bool {
	resets := l.reset != unknownReset && l.reset <= nearReset
	higher := l.left >= b.Limit || l.max >= 0 && differs(b, l)
	if b.Window.Estimate() || resets || higher {
		return false
	}
	return named(b, l.bucket) || similar(b, l)
}

// differs reports whether a limit cannot be the one that a budget enforces: it
// is lower, or more than twice as high and not of the budget's name.
func differs(b *quota.Budget, l limit) bool {
	return l.max < b.Limit || l.max > 2*b.Limit && !named(b, l.bucket)
}
