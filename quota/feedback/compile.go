package feedback

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Check returns an error that says what is wrong with a rule and what to
// write instead.
func (r *Rule) Check() error {
	_, err := compile(*r)
	return err
}

// rule is a Rule that is ready to be tried.
type rule struct {
	Rule
	headers   []string          // that it reads as limits or costs; the common rules leave them alone
	spelled   map[string]string // all headers that it reads, as net/http spells them
	statuses  [][2]int          // the first and the last of each range; none is all
	bodyPaths []string          // of When.Body
	needsBody bool
	needsText bool // of a body that need not be JSON
}

// saysCost reports whether the rule says what a call cost.
func (r *Rule) saysCost() bool { return len(r.Cost) > 0 || len(r.Measures) > 0 }

// keepMeasures removes what a rule says of other measures than those known, or
// its cost in units if it says something of a known one. It reports whether
// anything is left.
func (r *Rule) keepMeasures(known []quota.Measure) bool {
	if len(r.Measures) == 0 {
		return true
	}
	r.Measures = maps.Clone(r.Measures)
	maps.DeleteFunc(r.Measures, func(m quota.Measure, _ RuleValues) bool { return !slices.Contains(known, m) })
	if len(r.Measures) > 0 {
		r.Cost = nil
	}
	return len(r.Cost)+len(r.Measures)+len(r.Limits) > 0 || r.Stop != nil
}

// compile checks a rule, and finds out what it needs of an answer.
func compile(r Rule) (*rule, error) {
	c := &rule{Rule: r, bodyPaths: sortedKeys(r.When.Body), spelled: map[string]string{}}
	says := c.saysCost() || len(r.Limits) > 0
	if r.Stop == nil && !says && r.Counts == nil {
		return nil, errors.New("a rule without stop, cost, limits or counts says nothing: write one of them")
	}
	for _, word := range r.When.Status {
		first, last, err := parseStatus(word)
		if err != nil {
			return nil, err
		}
		c.statuses = append(c.statuses, [2]int{first, last})
	}
	for name := range r.When.Header {
		if err := checkHeader(name); err != nil {
			return nil, err
		}
		c.spelled[name] = http.CanonicalHeaderKey(name)
	}
	values := r.amounts()
	for _, v := range values {
		for _, name := range v.Header {
			c.headers = append(c.headers, http.CanonicalHeaderKey(name))
		}
	}
	if r.Stop != nil {
		values = append(values, r.Stop.values()...)
	}
	c.needsText = len(r.When.Text) > 0
	c.needsBody = len(r.When.Body) > 0 || c.needsText
	for _, v := range values {
		if err := v.check(); err != nil {
			return nil, err
		}
		for _, name := range v.Header {
			c.spelled[name] = http.CanonicalHeaderKey(name)
		}
		isOfText := len(v.Text) > 0
		c.needsText = c.needsText || isOfText
		c.needsBody = c.needsBody || len(v.Body) > 0 || isOfText
	}
	return c, cmp.Or(each(r.Limits, (*Limit).check), r.Stop.check())
}

// amounts returns the values that a rule reads as costs or limits.
func (r *Rule) amounts() (all []*RuleValue) {
	for _, m := range sortedKeys(r.Measures) {
		all = append(all, pointers(r.Measures[m])...)
	}
	all = append(all, pointers(r.Cost)...)
	for i := range r.Limits {
		d := &r.Limits[i]
		for _, v := range []*RuleValue{d.Name, d.Limit, d.Left, d.Used, d.Pair, d.Until, d.Rate, d.Needed} {
			if v != nil {
				all = append(all, v)
			}
		}
	}
	return all
}

// values returns the places that a stop reads.
func (s *Stop) values() []*RuleValue {
	all := append(pointers(s.Name), pointers(s.Word)...)
	for i := range s.Until {
		if u := &s.Until[i]; u.Day+u.Month+u.Every+u.Pause+u.Window == "" {
			all = append(all, &u.RuleValue)
		}
	}
	return all
}

func pointers(values RuleValues) (all []*RuleValue) {
	for i := range values {
		all = append(all, &values[i])
	}
	return all
}

func (s *Stop) check() error {
	if s == nil {
		return nil
	}
	if kinds := []string{"", Spent, Busy, Blocked, Failed, None}; !slices.Contains(kinds, s.Kind) {
		return fmt.Errorf("unknown kind %q of stop: write spent, busy, blocked, failed or none", s.Kind)
	}
	if scopes := []string{"", "account", "method", "key"}; !slices.Contains(scopes, s.Scope) {
		return fmt.Errorf("unknown scope %q: write account, method or key, or name budgets", s.Scope)
	}
	_, err := parseSpan(s.Window)
	return cmp.Or(err, each(s.Until, (*RuleUntil).check))
}

// each returns the first error of a check of the items of a list.
func each[T any](list []T, check func(*T) error) error {
	for i := range list {
		if err := check(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (u *RuleUntil) check() error {
	for _, zone := range []string{u.Day, u.Month} {
		if _, err := time.LoadLocation(zone); err != nil {
			return fmt.Errorf("unknown time zone %q: write one such as UTC or America/Los_Angeles", zone)
		}
	}
	for _, length := range []string{u.Every, u.Pause} {
		if _, ok := parseDuration(length); !ok && length != "" {
			return fmt.Errorf("%q is not a duration: write one such as 15m", length)
		}
	}
	_, err := parseSpan(u.Window)
	return err
}

func (d *Limit) check() error {
	isOfUse := d.Left != nil || d.Pair != nil
	if !isOfUse && d.Used == nil {
		return errors.New("a limit without left, used or pair says nothing: write left: {header: " +
			"X-RateLimit-Remaining}")
	}
	if !isOfUse && d.Limit == nil {
		return errors.New("used without limit does not say what is left: write limit: {header: X-RateLimit-Limit} " +
			"beside it")
	}
	isAlone := d.Limit == nil && d.Used == nil
	isKnown := d.Budget+d.Window != "" || d.Name != nil
	if d.Left != nil && isAlone && !isKnown {
		return errors.New("left alone does not say of what: write limit, window: day, or budget beside it")
	}
	_, err := parseSpan(d.Window)
	return err
}

func (v *RuleValue) check() error {
	places := 0
	for _, has := range []bool{len(v.Header) > 0, len(v.Body) > 0, len(v.Text) > 0, v.Is != ""} {
		if has {
			places++
		}
	}
	if places != 1 {
		return errors.New("a value is in one place: write header: X-Cost, body: usage.total_tokens, " +
			"text: retry in, or is: a fixed one")
	}
	if _, _, ok := unitOf(v.In); !ok {
		return fmt.Errorf("unknown unit %q: write seconds, ms, minutes, hours or days, or per second for a rate", v.In)
	}
	if v.Path != "" && len(v.Header) == 0 {
		return errors.New("path is for a header that holds JSON: write the whole path as body")
	}
	for _, name := range v.Header {
		if err := checkHeader(name); err != nil {
			return err
		}
	}
	return nil
}

// checkHeader returns an error if no header can have a name.
func checkHeader(name string) error {
	isOther := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }
	if name == "" || strings.ContainsFunc(name, isOther) {
		return fmt.Errorf("%q is not the name of a header: write one such as X-RateLimit-Reset", name)
	}
	return nil
}

// parseStatus reads 429, 4xx and 400-499.
func parseStatus(word string) (first, last int, err error) {
	from, to, isRange := strings.Cut(word, "-")
	if !isRange {
		from, to = strings.ReplaceAll(word, "x", "0"), strings.ReplaceAll(word, "x", "9")
	}
	first, err1 := strconv.Atoi(from)
	last, err2 := strconv.Atoi(to)
	isRead := err1 == nil && err2 == nil
	if isOrdered := 100 <= first && first <= last && last <= 599; !isRead || !isOrdered {
		return 0, 0, fmt.Errorf("%q is not a status: write 429, 4xx or 400-499", word)
	}
	return first, last, nil
}

// parseSpan reads the length of a window: day, or 15m; 0 for "".
func parseSpan(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	windows := []string{"second", "minute", "hour", "day", "week", "month"}
	if slices.Contains(windows, text) {
		return common.Units[text], nil
	}
	if span, ok := parseDuration(text); ok && span > 0 {
		return span, nil
	}
	return 0, fmt.Errorf("%q is not a window: write %s, or a duration such as 15m", text, strings.Join(windows, ", "))
}

// spanOf is parseSpan for a text that was checked.
func spanOf(text string) time.Duration {
	span, _ := parseSpan(text)
	return span
}

// matchesAny reports whether one of the words, in which * is any text, is text.
func matchesAny(words RuleWords, text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(word string) bool { return matches(strings.ToLower(word), text) })
}

func matches(pattern, text string) bool {
	begin, rest, hasStar := strings.Cut(pattern, "*")
	if !hasStar {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, begin)
	if !ok {
		return false
	}
	for {
		part, more, hasMore := strings.Cut(rest, "*")
		if !hasMore {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], more
	}
}

// sortedKeys returns the keys of a map in an order that is always the same.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
