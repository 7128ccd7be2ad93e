package feedback

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// outcome is what rules have read from an answer.
type outcome struct {
	stop    *halt
	limits  []limit
	counts  *bool
	reasons []string // the rules that matched, for people
	seen    []Finding
	traces  bool // keeps what is for people

	cost         quota.Units // what the call really cost, if hasCost
	hasCost      bool
	measures     map[quota.Measure]quota.Units // what it cost in named measures
	undocumented bool                          // no rule says so, but a common header

	retry    moment // of a Retry-After
	hasRetry bool

	room [2]limit
}

// Finding is something that was read from an answer.
type Finding struct {
	Rule string `json:"rule"` // the rule that read it; empty for the common ones
	What string `json:"what"`
	From string `json:"from"`
	// Missing says that a rule looked for it in vain.
	Missing bool `json:"missing"`
}

// failed reports whether a rule says that the upstream failed.
func (o *outcome) failed() bool { return o.stop != nil && o.stop.kind == Failed }

// halt is a stop that an answer asks for.
type halt struct {
	kind  string
	scope string // account, method or key; empty: the budget that matches
	about limit
	word  string
	rule  string

	aside  bool // the answer is about something else, and asks for a pause
	moment      // until the stop ends, if known
	known  bool
	told   bool // the answer itself says how long
	ends   bool // until a window ends
	double bool // a guess, which doubles
}

func (o *outcome) saw(rule, from, format string, args ...any) {
	if !o.traces {
		return
	}
	o.seen = append(o.seen, Finding{Rule: rule, From: from, What: fmt.Sprintf(format, args...)})
}

// missed says that a rule looked for something in vain.
func (o *outcome) missed(rule, from, what string) {
	if o.traces {
		o.seen = append(o.seen, Finding{Rule: rule, From: from, What: what, Missing: true})
	}
}

// missed says why the rule in hand could not read a value as a number, say.
func (a *answer) missed(v *RuleValue, kind string) {
	if a.trace == nil {
		return
	}
	what := "not in the answer"
	for _, text := range v.read(a) {
		what = fmt.Sprintf("%q is not a %s", human.Cut(text, maxMissed), kind)
	}
	a.trace.missed(a.rule, v.where(), what)
}

const maxMissed = 60 // bytes of a value that cannot be read

func (o *outcome) addRetry(a *answer, name, text string, unit time.Duration) {
	m, ok := parseMoment(text, a.now, unit)
	if !ok { // a proxy may have repeated it
		m, ok = parseMoment(itemAt(text, 0), a.now, unit)
	}
	if !ok || o.hasRetry && name != "Retry-After" {
		return
	}
	if unit != time.Millisecond && !m.date {
		m.wait = ceilSecond(m.wait)
	}
	o.retry, o.hasRetry = m, true
	o.saw("", name, "wait %s", human.Duration(m.wait))
}

func (o *outcome) addCost(units quota.Units, undocumented bool, from string) {
	if o.hasCost {
		return
	}
	o.cost, o.hasCost = units, true
	o.undocumented = undocumented
	o.saw("", from, "the call cost %d", units)
}

// add adds what a rule that matches says.
func (o *outcome) add(r *reader, c *rule, a *answer) {
	if o.traces {
		o.reasons = append(o.reasons, c.At)
	}
	if c.Counts != nil && o.counts == nil {
		o.counts = c.Counts
	}
	documents, isList := a.doc.([]any)
	if !isList {
		documents = []any{a.doc}
	}
	o.addMeasures(c, *a, documents)
	if len(c.Cost) > 0 && (!o.hasCost || o.undocumented) {
		if units, ok := c.sumLast(c.Cost, *a, documents); ok {
			o.cost, o.hasCost = units, true
			o.undocumented = false
			o.saw(c.At, c.Cost[0].where(), "the call cost %d", units)
		}
	}
	for i := range c.Limits {
		if l, ok := c.Limits[i].read(a); ok {
			o.limits = append(o.limits, l)
		}
	}
	if c.Stop != nil && o.stop == nil {
		o.stop = c.stop(r, a, o)
	}
}

// addMeasures adds what a rule says about the named measures that no earlier
// one has said anything about.
func (o *outcome) addMeasures(c *rule, a answer, documents []any) {
	for _, m := range sortedKeys(c.Measures) {
		values := c.Measures[m]
		if _, isKnown := o.measures[m]; isKnown {
			continue
		}
		n, ok := c.sumLast(values, a, documents)
		if !ok {
			continue
		}
		if o.measures == nil {
			o.measures = map[quota.Measure]quota.Units{}
		}
		o.measures[m] = n
		o.saw(c.At, values[0].where(), "the call cost %s", m.Text(n))
	}
}

// where names the place of a value.
func (v *RuleValue) where() string {
	var names []string
	for _, name := range v.Header {
		names = append(names, http.CanonicalHeaderKey(name))
	}
	for _, text := range v.Text {
		names = append(names, strings.ToLower(text))
	}
	return cmp.Or(strings.Join(append(names, v.Body...), " or "), v.Is)
}

// read returns the state of a limit.
func (d *Limit) read(a *answer) (limit, bool) {
	l := newLimit()
	l.budget, l.count = d.Budget, d.Count
	l.leaky, l.span = d.Leaky, spanOf(d.Window)
	if d.Name != nil {
		for _, text := range d.Name.read(a) {
			l.bucket = bucketName(text)
			break
		}
	}
	for _, part := range []*RuleValue{d.Left, d.Pair, d.Used, d.Until} {
		if part != nil && l.from == "" && len(part.read(a)) > 0 {
			l.from = part.where()
		}
	}
	set := func(to *quota.Units, v *RuleValue) {
		if n, ok := v.number(a); ok {
			*to = quota.Units(n)
		}
	}
	set(&l.max, d.Limit)
	set(&l.left, d.Left)
	used := quota.Units(-1)
	set(&used, d.Used)
	if d.Pair != nil {
		for _, text := range d.Pair.read(a) {
			if most, spent, ok := pairOf(text); ok {
				l.max, used = most, spent
			}
		}
		if used < 0 {
			a.missed(d.Pair, "pair such as 40/100")
		}
	}
	l.setUsed(used)
	if m, ok := d.Until.wait(a); ok && !m.far {
		l.reset, l.bare = m.wait, m.bare
	}
	if rate, ok := d.Rate.number(a); ok && l.left >= 0 {
		needed, _ := d.Needed.number(a)
		if rate > 0 {
			missing := max(1, roundUp(needed)) - l.left
			l.reset = ceilSecond(time.Duration(min(max(0, float64(missing))/rate,
				MaxDate.Seconds()) * float64(time.Second)))
		}
	}
	return l, l.left >= 0 || l.reset >= 0
}

// stop reads the stop of a rule.
func (c *rule) stop(r *reader, a *answer, out *outcome) *halt {
	s := c.Stop
	h := &halt{kind: cmp.Or(s.Kind, Spent), scope: s.Scope, rule: c.At, about: newLimit()}
	h.about.span = spanOf(s.Window)
	h.about.bucket = bucketName(s.Name.text(a))
	h.word = s.Word.text(a)
	for _, b := range slices.Concat(a.covered, a.ofErrors, a.inFlight) {
		if slices.Contains(s.Budgets, b.Name) {
			h.about.budget = b.Name
			break
		}
	}
	if len(s.Budgets) > 0 && h.about.budget == "" {
		out.missed(c.At, strings.Join(s.Budgets, " or "), "no such budget covers the call")
	}
	for i := range s.Until {
		if s.Until[i].end(a, out, h) {
			break
		}
	}
	return h
}

// end sets when the stop ends, and returns false if that cannot be read.
func (u *RuleUntil) end(a *answer, out *outcome, h *halt) bool {
	switch {
	case u.Day != "", u.Month != "":
		zone, _ := time.LoadLocation(u.Day + u.Month)
		window := quota.Daily(zone)
		if u.Month != "" {
			window = quota.Monthly(zone)
		}
		h.wait, h.ends = window.Day(a.now()).Opens.Sub(a.now()), true
	case u.Every != "":
		length, _ := parseDuration(u.Every)
		h.wait, h.ends = a.now().Truncate(length).Add(length).Sub(a.now()), true
	case u.Window != "":
		h.about.span = spanOf(u.Window)
		return true
	case u.Pause != "":
		h.wait, _ = parseDuration(u.Pause)
		h.double = u.Double
	default:
		m, ok := out.retry, out.hasRetry
		isRetryAfter := func(name string) bool { return strings.EqualFold(name, "Retry-After") }
		if !ok || !slices.ContainsFunc(u.Header, isRetryAfter) {
			m, ok = u.wait(a)
		}
		if !ok {
			return false
		}
		h.tell(m)
		out.saw(h.rule, u.where(), "wait %s", human.Duration(m.wait))
	}
	h.known = true
	return true
}

// tell sets how long the answer asks to wait.
func (h *halt) tell(m moment) {
	h.moment = m
	h.known, h.told = true, true
}

// reason returns the status, the upstream's word or message, and the name of
// the limit: 429 rateLimitExceeded search_list.
func (a *answer) reason(h *halt) string {
	what := h.word
	if what == "" {
		what = messageOf(a.doc)
	}
	hasWords := func(text string) bool { return strings.Contains(text, " ") }
	saysSo := func(text string) bool { return saysLimited([]string{text}) }
	if i := slices.IndexFunc(a.texts, hasWords); what == "" && i >= 0 {
		what, _, _ = strings.Cut(a.texts[i], "\n")
	}
	if i := slices.IndexFunc(a.texts, saysSo); h.word == "" && !hasWords(what) && i >= 0 {
		what = a.texts[i]
	}
	if what == "" {
		what = http.StatusText(a.status)
	}
	text := fmt.Sprintf("%d %s", a.status, what)
	if name := h.about.bucket; name != "" && name != defaultBucket && !strings.Contains(text, name) {
		text += " " + name
	}
	return clean(text)
}
