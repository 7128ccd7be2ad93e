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
	headers   []string // that it reads as limits or costs; the common rules leave them alone
	statuses  [][2]int // the first and the last of each range; none is all
	bodyPaths []string // of When.Body
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

// rulesFor returns the rules for answers of a status, perhaps with others.
func (r *reader) rulesFor(status int) []*rule {
	if status < 100 || status > 599 {
		return r.rules
	}
	return r.byClass[status/100]
}

// classes returns the rules for each class of status.
func classes(rules []*rule) (byClass [6][]*rule) {
	for class := 1; class < len(byClass); class++ {
		for _, r := range rules {
			isIn := func(s [2]int) bool { return s[0]/100 <= class && class <= s[1]/100 }
			if len(r.statuses) == 0 || slices.ContainsFunc(r.statuses, isIn) {
				byClass[class] = append(byClass[class], r)
			}
		}
	}
	return byClass
}

// compile checks a rule, and puts the names of headers and the words into the
// form in which they are compared.
func compile(r Rule) (*rule, error) {
	c := &rule{Rule: r}
	saysCost := c.saysCost() || len(r.Limits) > 0
	if r.Stop == nil && !saysCost && r.Counts == nil {
		return nil, errors.New("a rule without stop, cost, limits or counts says nothing: write one of them")
	}
	for _, word := range r.When.Status {
		first, last, err := parseStatus(word)
		if err != nil {
			return nil, err
		}
		c.statuses = append(c.statuses, [2]int{first, last})
	}
	c.When.Method, c.When.Path = lowered(r.When.Method), lowered(r.When.Path)
	c.When.Text = lowered(r.When.Text)
	for name := range r.When.Header {
		if err := checkHeader(name); err != nil {
			return nil, err
		}
	}
	c.When.Header = loweredMap(r.When.Header, http.CanonicalHeaderKey)
	c.When.Body = loweredMap(r.When.Body, strings.Clone)
	c.bodyPaths = sortedKeys(r.When.Body)
	c.needsText = len(r.When.Text) > 0
	c.needsBody = len(r.When.Body) > 0 || c.needsText
	c.Cost = slices.Clone(r.Cost)
	c.Measures = maps.Clone(r.Measures)
	for m, values := range c.Measures {
		c.Measures[m] = slices.Clone(values)
		if err := each(c.Measures[m], c.checkValue); err != nil {
			return nil, err
		}
	}
	c.Limits = slices.Clone(r.Limits)
	err := c.checkParts()
	c.headers = c.headersRead()
	return c, err
}

func (c *rule) checkParts() error {
	if err := cmp.Or(each(c.Cost, c.checkValue), each(c.Limits, c.checkLimit)); err != nil || c.Stop == nil {
		return err
	}
	stop := *c.Stop
	stop.Name, stop.Word = slices.Clone(stop.Name), slices.Clone(stop.Word)
	stop.Until = slices.Clone(stop.Until)
	c.Stop = &stop
	if kinds := []string{"", Spent, Busy, Blocked, Failed, None}; !slices.Contains(kinds, stop.Kind) {
		return fmt.Errorf("unknown kind %q of stop: write spent, busy, blocked, failed or none", stop.Kind)
	}
	if scopes := []string{"", "account", "method", "key"}; !slices.Contains(scopes, stop.Scope) {
		return fmt.Errorf("unknown scope %q: write account, method or key, or name budgets", stop.Scope)
	}
	_, err := parseSpan(stop.Window)
	return cmp.Or(err, each(stop.Name, c.checkValue), each(stop.Word, c.checkValue), each(stop.Until, c.checkUntil))
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

func (c *rule) checkUntil(u *RuleUntil) error {
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
	if err != nil || u.Day+u.Month+u.Every+u.Pause+u.Window != "" {
		return err
	}
	return c.checkValue(&u.RuleValue)
}

func (c *rule) checkLimit(l *Limit) error {
	isOfUse := l.Left != nil || l.Pair != nil
	if !isOfUse && l.Used == nil {
		return errors.New("a limit without left, used or pair says nothing: write left: {header: " +
			"X-RateLimit-Remaining}")
	}
	if !isOfUse && l.Limit == nil {
		return errors.New("used without limit does not say what is left: write limit: {header: X-RateLimit-Limit} " +
			"beside it")
	}
	isAlone := l.Limit == nil && l.Used == nil
	isKnown := l.Budget+l.Window != "" || l.Name != nil
	if l.Left != nil && isAlone && !isKnown {
		return errors.New("left alone does not say of what: write limit, window: day, or budget beside it")
	}
	_, err := parseSpan(l.Window)
	return cmp.Or(err, each(l.parts(), func(part ***RuleValue) error {
		if **part == nil {
			return nil
		}
		value := ***part
		**part = &value
		return c.checkValue(&value)
	}))
}

// parts returns the values of a limit.
func (d *Limit) parts() []**RuleValue {
	return []**RuleValue{&d.Name, &d.Limit, &d.Left, &d.Used, &d.Pair, &d.Until, &d.Rate, &d.Needed}
}

// checkValue checks a place, and puts its names into the form in which they are
// looked up.
func (c *rule) checkValue(v *RuleValue) error {
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
	c.needsText = c.needsText || len(v.Text) > 0
	c.needsBody = c.needsBody || len(v.Body) > 0 || len(v.Text) > 0
	v.Text = lowered(v.Text)
	v.Header = slices.Clone(v.Header)
	for i, name := range v.Header {
		if err := checkHeader(name); err != nil {
			return err
		}
		v.Header[i] = http.CanonicalHeaderKey(name)
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

func lowered(words []string) (all []string) {
	for _, word := range words {
		all = append(all, strings.ToLower(word))
	}
	return all
}

// loweredMap returns a map with lowered words, or nil if it is empty.
func loweredMap(from map[string]RuleWords, key func(string) string) map[string]RuleWords {
	var all map[string]RuleWords
	for name, words := range from {
		if all == nil {
			all = map[string]RuleWords{}
		}
		all[key(name)] = lowered(words)
	}
	return all
}

// headersRead returns the headers that a rule reads as limits or costs.
func (c *rule) headersRead() (names []string) {
	for _, values := range append(slices.Collect(maps.Values(c.Measures)), c.Cost) {
		for i := range values {
			names = append(names, values[i].Header...)
		}
	}
	for i := range c.Limits {
		for _, part := range c.Limits[i].parts() {
			if *part != nil {
				names = append(names, (*part).Header...)
			}
		}
	}
	return names
}

// matchesAny reports whether one of the words, in which * is any text, is text.
func matchesAny(words RuleWords, text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(word string) bool { return matches(word, text) })
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
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
