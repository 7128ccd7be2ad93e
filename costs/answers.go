package costs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// readAnswers reads answers: the rules by which the upstream's answers are
// read, before those of the dialect. Those of a file come before its preset's.
func (d *document) readAnswers(n strictyaml.Node) {
	var rules []feedback.Rule
	n.Items(func(n strictyaml.Node) {
		var rule feedback.Rule
		before := n.Mistakes()
		n.Fields(d.ruleFields(&rule)...)
		if n.Mistakes() > before {
			return
		}
		file, line, _ := n.Place()
		rule.At = fmt.Sprintf("%s:%d", file, line)
		if err := rule.Check(); err != nil {
			n.Mistake("%v", err)
			return
		}
		rules = append(rules, rule)
	})
	d.Answers = slices.Concat(rules, d.Answers)
}

func (d *document) ruleFields(r *feedback.Rule) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "about", Read: readText(&r.About)},
		{
			Key: "when", Missing: "when: {status: 429}, the answers that the rule is about",
			Read: func(n strictyaml.Node) { n.Fields(d.whenFields(&r.When)...) },
		},
		{Key: "stop", Read: func(n strictyaml.Node) {
			r.Stop = &feedback.Stop{}
			if n.Kind() == strictyaml.Text {
				r.Stop.Kind = n.OneOf("stop", stopKinds, "a map such as {until: {header: X-Reset}}")
				return
			}
			n.Fields(d.stopFields(r.Stop)...)
		}},
		{Key: "cost", Read: func(n strictyaml.Node) { d.readRuleCost(n, r) }},
		{Key: "limits", Read: func(n strictyaml.Node) {
			oneOrMore(n, (*[]feedback.Limit)(&r.Limits), d.limitFields, func(l feedback.Limit) feedback.Rule {
				return feedback.Rule{Limits: feedback.Limits{l}}
			})
		}},
		{Key: "counts", Read: func(n strictyaml.Node) { r.Counts = new(n.Bool()) }},
	}
}

var (
	stopKinds  = []string{feedback.Spent, feedback.Busy, feedback.Blocked, feedback.Failed, feedback.None}
	stopScopes = []string{"account", "method", "key"}
	valueUnits = []string{"ms", "seconds", "minutes", "hours", "days", "per second", "per minute", "per hour"}
)

func (d *document) whenFields(w *feedback.RuleCondition) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "status", Read: func(n strictyaml.Node) {
			readAnswerWords(&w.Status)(n)
			checkWhen(n, feedback.RuleCondition{Status: w.Status})
		}},
		{Key: "method", Read: func(n strictyaml.Node) {
			readAnswerWords(&w.Method)(n)
			d.checkLater(n, func(n strictyaml.Node, _ []string) { d.readMethod(n) })
		}},
		{Key: "path", Read: readAnswerWords(&w.Path)},
		{Key: "header", Read: readConditions(&w.Header, func(key strictyaml.Node, name string) {
			checkWhen(key, feedback.RuleCondition{Header: map[string]feedback.RuleWords{name: {"*"}}})
		})},
		{Key: "body", Read: readConditions(&w.Body, func(strictyaml.Node, string) {})},
		{Key: "text", Read: readAnswerWords(&w.Text)},
	}
}

func (d *document) stopFields(s *feedback.Stop) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "kind", Read: func(n strictyaml.Node) { s.Kind = n.OneOf("kind of stop", stopKinds) }},
		{Key: "scope", Read: func(n strictyaml.Node) { s.Scope = n.OneOf("scope", stopScopes) }},
		{Key: "budgets", Read: func(n strictyaml.Node) {
			readAnswerWords(&s.Budgets)(n)
			d.checkLater(n, checkBudget)
		}},
		{Key: "window", Read: readSpan(&s.Window)},
		{Key: "name", Read: readValues(&s.Name)},
		{Key: "word", Read: readValues(&s.Word)},
		{Key: "until", Read: func(n strictyaml.Node) {
			oneOrMore(n, (*[]feedback.RuleUntil)(&s.Until), untilFields, func(u feedback.RuleUntil) feedback.Rule {
				return feedback.Rule{Stop: &feedback.Stop{Until: feedback.RuleUntils{u}}}
			})
		}},
	}
}

// readRuleCost reads what calls really cost: in units, or a map of measures.
func (d *document) readRuleCost(n strictyaml.Node, r *feedback.Rule) {
	isValue := slices.ContainsFunc(ofValue, n.Has)
	if n.Kind() != strictyaml.Map || isValue {
		readValues(&r.Cost)(n)
		return
	}
	names := slices.Concat([]string{"units"}, d.measureNames()[2:], ofValue)
	r.Measures = map[quota.Measure]feedback.RuleValues{}
	n.Entries(func(key, value strictyaml.Node) {
		name := key.OneOf("key", names)
		var values feedback.RuleValues
		switch readValues(&values)(value); name {
		case "":
		case "units":
			r.Cost = values
		default:
			r.Measures[quota.Measure(name)] = values
		}
	})
}

// readValues reads a value, a list of them, or a fixed number.
func readValues(into *feedback.RuleValues) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		if n.Kind() == strictyaml.Integer {
			*into = feedback.RuleValues{{Is: strconv.FormatInt(n.Int(0, int64(quota.MaxUnits)), 10)}}
			return
		}
		oneOrMore(n, (*[]feedback.RuleValue)(into), valueFields, ruleOfValue)
	}
}

func ruleOfValue(v feedback.RuleValue) feedback.Rule {
	return feedback.Rule{Cost: feedback.RuleValues{v}}
}

// checkLater checks the words of a rule once all documents are read. It is
// called with the names of the account's budgets.
func (d *document) checkLater(n strictyaml.Node, check func(n strictyaml.Node, budgets []string)) {
	if d.reading != nil { // whose names a file may have replaced
		return
	}
	word := func(n strictyaml.Node) {
		if !strings.Contains(n.Scalar(maxText), "*") {
			d.later = append(d.later, func(budgets []string) { check(n, budgets) })
		}
	}
	if n.Kind() == strictyaml.List {
		n.Items(word)
		return
	}
	word(n)
}

func checkBudget(n strictyaml.Node, budgets []string) { n.OneOf("budget", budgets) }

// checkRules makes the checks of rules that need all documents.
func checkRules(documents []*document) {
	for _, d := range documents {
		var budgets []string
		for _, other := range documents {
			for i := range other.Budgets {
				if other.Account == d.Account {
					budgets = append(budgets, other.Budgets[i].Name)
				}
			}
		}
		for _, check := range d.later {
			check(budgets)
		}
	}
}

func valueFields(v *feedback.RuleValue) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "header", Read: func(n strictyaml.Node) {
			readAnswerWords(&v.Header)(n)
			checkRule(n, ruleOfValue(feedback.RuleValue{Header: v.Header}))
		}},
		{Key: "body", Read: readAnswerWords(&v.Body)},
		{Key: "path", Read: readText(&v.Path)},
		{Key: "text", Read: readAnswerWords(&v.Text)},
		{Key: "item", Read: func(n strictyaml.Node) { v.Item = int(n.Int(1, 16)) }},
		{Key: "in", Read: func(n strictyaml.Node) { v.In = n.OneOf("unit", valueUnits) }},
		{Key: "is", Read: readText(&v.Is)},
		{Key: "last_of", Read: readText(&v.LastOf)},
		{Key: "known", Read: func(n strictyaml.Node) { v.Known = n.Bool() }},
		{Key: "names", Read: func(n strictyaml.Node) {
			v.Names = map[string]string{}
			n.Entries(func(key, value strictyaml.Node) { v.Names[key.Text(maxText)] = value.Text(maxText) })
		}},
	}
}

func untilFields(u *feedback.RuleUntil) []strictyaml.Field {
	return append(valueFields(&u.RuleValue), []strictyaml.Field{
		{Key: "day", Read: readZone(&u.Day)},
		{Key: "month", Read: readZone(&u.Month)},
		{Key: "every", Read: readSpan(&u.Every)},
		{Key: "pause", Read: readSpan(&u.Pause)},
		{Key: "window", Read: readSpan(&u.Window)},
		{Key: "double", Read: func(n strictyaml.Node) { u.Double = n.Bool() }},
	}...)
}

func (d *document) limitFields(l *feedback.Limit) []strictyaml.Field {
	value := func(into **feedback.RuleValue) func(strictyaml.Node) {
		return func(n strictyaml.Node) {
			*into = &feedback.RuleValue{}
			before := n.Mistakes()
			n.Fields(valueFields(*into)...)
			if n.Mistakes() == before {
				checkRule(n, ruleOfValue(**into))
			}
		}
	}
	return []strictyaml.Field{
		{Key: "budget", Read: func(n strictyaml.Node) {
			l.Budget = n.Text(maxText)
			d.checkLater(n, checkBudget)
		}},
		{Key: "name", Read: value(&l.Name)},
		{Key: "window", Read: readSpan(&l.Window)},
		{Key: "count", Read: func(n strictyaml.Node) { l.Count = n.OneOf("count", d.measureNames()) }},
		{Key: "leaky", Read: func(n strictyaml.Node) { l.Leaky = n.Bool() }},
		{Key: "limit", Read: value(&l.Limit)},
		{Key: "left", Read: value(&l.Left)},
		{Key: "used", Read: value(&l.Used)},
		{Key: "pair", Read: value(&l.Pair)},
		{Key: "until", Read: value(&l.Until)},
		{Key: "rate", Read: value(&l.Rate)},
		{Key: "needed", Read: value(&l.Needed)},
	}
}

// oneOrMore reads a map, or a list of maps. Each is checked as the rule that
// ruleOf makes of it, where it is written.
func oneOrMore[T any](
	n strictyaml.Node, into *[]T, fields func(*T) []strictyaml.Field, ruleOf func(T) feedback.Rule,
) {
	read := func(n strictyaml.Node) {
		var one T
		before := n.Mistakes()
		n.Fields(fields(&one)...)
		if n.Mistakes() == before {
			checkRule(n, ruleOf(one))
		}
		*into = append(*into, one)
	}
	if n.Kind() == strictyaml.List {
		n.Items(read)
		return
	}
	read(n)
}

// readAnswerWords reads a word, or a list of words.
func readAnswerWords(into *feedback.RuleWords) func(strictyaml.Node) {
	read := func(n strictyaml.Node) {
		if word := n.Scalar(maxText); word != "" {
			*into = append(*into, word)
		}
	}
	return func(n strictyaml.Node) {
		*into = nil
		if n.Kind() == strictyaml.List {
			n.Items(read)
			return
		}
		read(n)
	}
}

func readConditions(
	into *map[string]feedback.RuleWords, check func(key strictyaml.Node, name string),
) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		*into = map[string]feedback.RuleWords{}
		n.Entries(func(key, value strictyaml.Node) {
			var words feedback.RuleWords
			readAnswerWords(&words)(value)
			name := key.Text(maxText)
			(*into)[name] = words
			check(key, name)
		})
	}
}

func readText(into *string) func(strictyaml.Node) {
	return func(n strictyaml.Node) { *into = n.PaddedText(maxText) }
}

// readSpan reads the length of a window: day, or 15m.
func readSpan(into *string) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		if *into = n.Text(maxText); *into != "" {
			checkRule(n, feedback.Rule{Stop: &feedback.Stop{Window: *into}})
		}
	}
}

func readZone(into *string) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		if zone := n.Zone(); zone != nil {
			*into = zone.String()
		}
	}
}

// checkRule reports what is wrong with a part of a rule where it is written.
func checkRule(n strictyaml.Node, part feedback.Rule) {
	if err := part.Check(); err != nil {
		n.Mistake("%v", err)
	}
}

func checkWhen(n strictyaml.Node, when feedback.RuleCondition) {
	checkRule(n, feedback.Rule{When: when, Counts: new(true)})
}
