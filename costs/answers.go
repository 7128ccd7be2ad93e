package costs

import (
	"fmt"
	"slices"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota/feedback"
)

// readAnswers reads answers: the rules by which the upstream's answers are
// read, before those of the dialect. Those of a file come before its preset's.
func (d *document) readAnswers(n strictyaml.Node) {
	var rules []feedback.Rule
	n.Items(func(n strictyaml.Node) {
		var rule feedback.Rule
		before := n.Mistakes()
		n.Fields(ruleFields(&rule)...)
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
	d.setOrigin(n, "answers")
}

func ruleFields(r *feedback.Rule) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "about", Read: readText(&r.About)},
		{
			Key: "when", Missing: "when: {status: 429}, the answers that the rule is about",
			Read: func(n strictyaml.Node) { n.Fields(whenFields(&r.When)...) },
		},
		{Key: "stop", Read: func(n strictyaml.Node) {
			r.Stop = &feedback.Stop{}
			if n.Kind() == strictyaml.Text {
				r.Stop.Kind = n.OneOf("stop", stopKinds, "a map such as {until: {header: X-Reset}}")
				return
			}
			n.Fields(stopFields(r.Stop)...)
		}},
		{Key: "cost", Read: func(n strictyaml.Node) { oneOrMore(n, (*[]feedback.RuleValue)(&r.Cost), valueFields) }},
		{Key: "limits", Read: func(n strictyaml.Node) { oneOrMore(n, (*[]feedback.Limit)(&r.Limits), limitFields) }},
		{Key: "counts", Read: func(n strictyaml.Node) { r.Counts = new(n.Bool()) }},
	}
}

var (
	stopKinds  = []string{feedback.Spent, feedback.Busy, feedback.Blocked, feedback.Failed, feedback.None}
	stopScopes = []string{"account", "method"}
	valueUnits = []string{"ms", "seconds", "minutes", "hours", "days", "per second", "per minute", "per hour"}
)

func whenFields(w *feedback.RuleCondition) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "status", Read: func(n strictyaml.Node) {
			readAnswerWords(&w.Status)(n)
			checkRule(n, &feedback.Rule{When: feedback.RuleCondition{Status: w.Status}, Counts: new(true)})
		}},
		{Key: "method", Read: readAnswerWords(&w.Method)},
		{Key: "path", Read: readAnswerWords(&w.Path)},
		{Key: "header", Read: readConditions(&w.Header)},
		{Key: "body", Read: readConditions(&w.Body)},
		{Key: "text", Read: readAnswerWords(&w.Text)},
	}
}

func stopFields(s *feedback.Stop) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "kind", Read: func(n strictyaml.Node) { s.Kind = n.OneOf("kind of stop", stopKinds) }},
		{Key: "scope", Read: func(n strictyaml.Node) { s.Scope = n.OneOf("scope", stopScopes) }},
		{Key: "budgets", Read: readAnswerWords(&s.Budgets)},
		{Key: "window", Read: readSpan(&s.Window)},
		{Key: "name", Read: func(n strictyaml.Node) { oneOrMore(n, (*[]feedback.RuleValue)(&s.Name), valueFields) }},
		{Key: "word", Read: func(n strictyaml.Node) { oneOrMore(n, (*[]feedback.RuleValue)(&s.Word), valueFields) }},
		{Key: "until", Read: func(n strictyaml.Node) { oneOrMore(n, (*[]feedback.RuleUntil)(&s.Until), untilFields) }},
	}
}

func valueFields(v *feedback.RuleValue) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "header", Read: readAnswerWords(&v.Header)},
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

func limitFields(l *feedback.Limit) []strictyaml.Field {
	value := func(into **feedback.RuleValue) func(strictyaml.Node) {
		return func(n strictyaml.Node) {
			*into = &feedback.RuleValue{}
			n.Fields(valueFields(*into)...)
		}
	}
	return []strictyaml.Field{
		{Key: "budget", Read: readText(&l.Budget)},
		{Key: "name", Read: value(&l.Name)},
		{Key: "window", Read: readSpan(&l.Window)},
		{Key: "count", Read: func(n strictyaml.Node) { l.Count = n.OneOf("count", []string{"calls", "units"}) }},
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

// oneOrMore reads a map, or a list of maps.
func oneOrMore[T any](n strictyaml.Node, into *[]T, fields func(*T) []strictyaml.Field) {
	read := func(n strictyaml.Node) {
		var one T
		n.Fields(fields(&one)...)
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

func readConditions(into *map[string]feedback.RuleWords) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		*into = map[string]feedback.RuleWords{}
		n.Entries(func(key, value strictyaml.Node) {
			var words feedback.RuleWords
			readAnswerWords(&words)(value)
			(*into)[key.Text(maxText)] = words
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
			checkRule(n, &feedback.Rule{Stop: &feedback.Stop{Window: *into}})
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
func checkRule(n strictyaml.Node, part *feedback.Rule) {
	if err := part.Check(); err != nil {
		n.Mistake("%v", err)
	}
}
