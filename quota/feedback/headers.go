package feedback

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// limit is what an answer says about one of the upstream's limits.
type limit struct {
	bucket    string // its name, or empty
	budget    string // the budget that a rule names for it
	span      time.Duration
	count     string        // calls or units, if that is known
	max, left quota.Units   // -1 if unknown
	reset     time.Duration // until all of it is available again, or unknownReset
	bare      bool          // reset was a whole number, whose unit may be another
	leaky     bool          // max is the size of a leaky bucket, which refills steadily
	from      string        // where it was read, for people
}

// unknownReset is the reset of a limit whose answer does not state one.
const unknownReset time.Duration = -1

func newLimit() limit { return limit{max: -1, left: -1, reset: unknownReset} }

// family is the headers of one limit.
type family struct {
	headerName
	values [windowRole + 1]string
	names  [windowRole + 1]string
	unit   time.Duration // of the reset
	window time.Duration // the unit of the window
}

// readFamilies reads the headers of the common families: those with the words
// of a limit in their names, except those that rules read. It also returns the
// wait of a Retry-After in any spelling, and the cost in the headers.
func (r *reader) readFamilies(a *answer, out *outcome) {
	var room [4]family
	families := room[:0]
	for name, values := range a.header {
		if len(values) == 0 {
			continue
		}
		h := r.names.parse(name)
		isList := name == "Ratelimit" || strings.Contains(values[0], "remaining=")
		if h == nil && !isList || a.isOfRule(name) {
			continue
		}
		if isList {
			out.addList(a, name)
			continue
		}
		if len(values) > 2 || len(values[0]) > 200 {
			continue
		}
		value := strings.TrimSpace(values[0])
		if len(values) == 2 {
			value += "," + values[1]
		}
		switch h.role {
		case retryRole:
			out.addRetry(a, name, value, h.unit)
		case costRole:
			if n, ok := parseAmount(value); ok {
				out.addCost(roundUp(n), true, name)
			}
		default:
			families = addFamily(families, h, name, value)
		}
	}
	slices.SortFunc(families, func(a, b family) int { return strings.Compare(a.family, b.family) })
	shareReset(families)
	for i := range families {
		families[i].limits(a, out)
	}
}

// isOfRule reports whether a rule that matches reads a header.
func (a *answer) isOfRule(name string) bool {
	return slices.ContainsFunc(a.candidates, func(c *rule) bool { return slices.Contains(c.headers, name) })
}

// shareReset gives the reset and the window of headers that name no limit to
// the limits that have none, if those headers say nothing else or repeat one of
// these limits.
func shareReset(families []family) {
	for i := range families {
		from := &families[i]
		if from.bucket != "" || from.span > 0 {
			continue
		}
		isAlone := from.values[leftRole]+from.values[usedRole] == ""
		for j := range families {
			to := &families[j]
			isRepeated := !isAlone && from.values[leftRole] == to.values[leftRole] &&
				from.values[maxRole] == to.values[maxRole]
			isOther := !isRepeated && (!isAlone || to.span > 0)
			if i == j || to.values[resetRole] != "" || isOther {
				continue
			}
			to.values[resetRole], to.values[windowRole] = from.values[resetRole], from.values[windowRole]
			to.unit, to.window = from.unit, from.window
		}
	}
}

// maxFamilies is how many limits of different names are read from headers.
const maxFamilies = 64

func addFamily(families []family, h *headerName, name, value string) []family {
	for i := range families {
		if families[i].family == h.family {
			families[i].set(h, name, value)
			return families
		}
	}
	if len(families) == maxFamilies {
		return families // of a hostile answer: their time grows with the square of their number
	}
	f := family{headerName: *h}
	f.set(h, name, value)
	return append(families, f)
}

func isWait(name string) bool {
	return strings.HasSuffix(name, "After") || strings.HasSuffix(name, "In")
}

func (f *family) set(h *headerName, name, value string) {
	// A wait is more exact than a time. Otherwise the order of a map must not matter.
	known := f.names[h.role]
	isFirst := isWait(known) || known < name
	if known != "" && !isWait(name) && isFirst {
		return
	}
	f.values[h.role], f.names[h.role] = value, name
	switch h.role {
	case resetRole:
		f.unit = h.unit
	case windowRole:
		f.window = h.unit
	}
}

// limits reads the limits of a family. Its values may be lists with a value for
// each of several limits.
func (f *family) limits(a *answer, out *outcome) {
	isPair := strings.Contains(f.values[maxRole], "/")
	if !isPair && f.values[leftRole]+f.values[usedRole]+f.values[resetRole] == "" {
		return
	}
	count := 1
	for _, role := range []headerRole{leftRole, usedRole} {
		count = max(count, min(strings.Count(f.values[role], ",")+1, maxMembers))
	}
	for i := range count {
		l := newLimit()
		l.bucket, l.span = f.bucket, f.span
		l.max, l.left = amountAt(f.values[maxRole], i), amountAt(f.values[leftRole], i)
		used := amountAt(f.values[usedRole], i)
		for _, role := range []headerRole{maxRole, usedRole} {
			if most, spent, ok := pairOf(f.values[role]); ok {
				l.max, used = most, spent
			}
		}
		l.setUsed(used)
		if w := itemAt(f.values[windowRole], i); l.span == 0 && w != "" {
			l.span, _ = a.wait(w, f.window)
		}
		if text := f.values[resetRole]; text != "" {
			m, ok := parseMoment(text, a.now, f.unit)
			if !ok {
				m, ok = parseMoment(itemAt(text, i), a.now, f.unit)
			}
			if ok && !m.far {
				l.reset, l.bare = m.wait, m.bare && f.unit == 0
			}
		}
		l.setWindow(a, count, i)
		l.from = cmp.Or(f.names[leftRole], f.names[usedRole], f.names[maxRole], f.names[resetRole])
		out.limits = append(out.limits, l)
	}
}

// setWindow reads the window of a limit in a list from the policy beside it,
// such as 1;w=1, 2000;w=2592000.
func (l *limit) setWindow(a *answer, count, i int) {
	if count == 1 || l.span > 0 {
		return
	}
	for _, name := range []string{"X-Ratelimit-Policy", "Ratelimit-Policy", "X-Ratelimit-Limit", "Ratelimit-Limit"} {
		if list := members(a.header, name); i < len(list) && list[i].text("w") != "" {
			l.span, _ = a.wait(list[i].text("w"), 0)
			return
		}
	}
}

// setUsed sets what is left, or the limit, from what is used; used is -1 if
// that is unknown.
func (l *limit) setUsed(used quota.Units) {
	switch {
	case used < 0:
	case l.left < 0 && l.max >= 0:
		l.left = max(0, l.max-used)
	case l.left >= 0 && l.max < 0:
		l.max = l.left + used
	}
}

// itemAt returns an item of a list with commas. A single value stands for all.
func itemAt(text string, i int) string {
	if !strings.Contains(text, ",") {
		return text
	}
	items := strings.Split(text, ",")
	if i >= len(items) {
		return ""
	}
	return items[i]
}

func amountAt(text string, i int) quota.Units {
	if n, ok := decimal(text); ok && n <= float64(quota.MaxLimit) { // as most are
		return quota.Units(n)
	}
	if n, ok := parseAmount(itemAt(text, i)); ok {
		return quota.Units(n)
	}
	return -1
}

// parseAmount reads a number that is not negative, up to a semicolon.
func parseAmount(text string) (float64, bool) {
	text, _, _ = strings.Cut(text, ";")
	if text = strings.TrimSpace(text); strings.HasPrefix(text, `"`) {
		text = strings.Trim(text, " \"")
	}
	n, ok := decimal(text)
	if !ok || n > float64(quota.MaxLimit) {
		return 0, false
	}
	return n, true
}

// roundUp returns n in units, rounded up, at most quota.MaxLimit.
func roundUp(n float64) quota.Units { return quota.Units(math.Ceil(min(n, float64(quota.MaxLimit)))) }

// pairOf parses the first "used/max" of a text. A name may precede it, before
// an equals sign; what follows a semicolon describes another limit.
func pairOf(text string) (most, used quota.Units, ok bool) {
	text, _, _ = strings.Cut(text, ";")
	if _, value, found := strings.Cut(text, "="); found {
		text = value
	}
	before, after, found := strings.Cut(strings.TrimSpace(text), "/")
	if !found {
		return 0, 0, false
	}
	used, most = amountAt(before, 0), amountAt(after, 0)
	return most, used, used >= 0 && most > 0
}

// ceilSecond rounds up to a second, waits that are as exact as milliseconds
// aside.
func ceilSecond(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Second); whole < d {
		return whole + time.Second
	}
	return d
}
