package costs

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// choice is the method of a route: one by name, or the one that a field of the
// request chooses.
type choice struct {
	method string // "" without a name
	by     requestField
	cases  []choiceCase // the most exact first; without any, the field is the method's name
	or     *choice      // if no case matches; nil refuses the request
}

type choiceCase struct {
	text    string // as in the file
	matches *regexp.Regexp
	to      *choice
}

// readChoice reads a method, or {body: model, is: {"gpt-4o*": chat-4o}, or:
// chat}.
func readChoice(n strictyaml.Node) *choice {
	if n.Kind() != strictyaml.Map {
		name := n.Text(quota.MaxLabel)
		if name != "" && !methodForm.MatchString(name) {
			n.Mistake("%q is not a method: write a name of letters, digits, dots and hyphens", name)
		}
		return &choice{method: name}
	}
	c := &choice{}
	c.by.readWith(n, append(c.by.fields(), []strictyaml.Field{
		{Key: "is", Read: func(n strictyaml.Node) {
			n.Entries(func(key, value strictyaml.Node) {
				text := key.Scalar(maxText)
				form := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$"
				c.cases = append(c.cases, choiceCase{text, regexp.MustCompile(form), readChoice(value)})
			})
			if n.IsEmpty() {
				n.Mistake("no value: write one, such as {\"gpt-4o*\": chat}, or remove the key if the field names " +
					"the method")
			}
			slices.SortStableFunc(c.cases, compareCases)
		}},
		{Key: "or", Read: func(n strictyaml.Node) { c.or = readChoice(n) }},
	}...))
	return c
}

// compareCases orders cases by exactness: a text without * comes first, then
// the one with more letters besides.
func compareCases(a, b choiceCase) int {
	stars := func(c choiceCase) int { return strings.Count(c.text, "*") }
	letters := func(c choiceCase) int { return len(c.text) - stars(c) }
	if isText := stars(a) == 0; isText != (stars(b) == 0) {
		return cmp.Compare(min(stars(a), 1), min(stars(b), 1))
	}
	return cmp.Compare(letters(b), letters(a))
}

// isByField reports whether a field of the request decides.
func (c *choice) isByField() bool { return c != nil && c.method == "" }

// find returns the method of a request, or why it is not certain.
func (c *choice) find(s *site, req *http.Request) (method, reason string) {
	if c.method != "" {
		return c.method, ""
	}
	text, found, reason := c.by.text(req)
	switch {
	case reason != "":
		return "", reason
	case found && len(c.cases) == 0:
		if reason := s.whyNoName(text); reason != "" {
			return "", "its " + c.by.String() + reason
		}
		return text, ""
	case found:
		for i := range c.cases {
			if c.cases[i].matches.MatchString(text) {
				return c.cases[i].to.find(s, req)
			}
		}
	}
	if c.or != nil {
		return c.or.find(s, req)
	}
	if !found {
		return "", "it has no " + c.by.String() + ", by which its route chooses the method; add or: METHOD to the route"
	}
	return "", "its " + c.by.String() + " is none of those in its route; add it, or or: METHOD"
}

// routes returns a line for each method that c leads to, of a route on some
// conditions.
func (c *choice) routes(pattern string, when ...string) (all []Route) {
	line := func(method string) Route { return Route{pattern, strings.Join(when, ", "), method} }
	if c.method != "" {
		return []Route{line(c.method)}
	}
	if len(c.cases) == 0 {
		all = append(all, line("{"+c.by.String()+"}"))
	}
	for i := range c.cases {
		is := fmt.Sprintf("%s is %s", &c.by, c.cases[i].text)
		all = append(all, c.cases[i].to.routes(pattern, append(slices.Clip(when), is)...)...)
	}
	if c.or != nil {
		all = append(all, c.or.routes(pattern, append(slices.Clip(when), "else")...)...)
	}
	return all
}

// isNamed reports whether the route leads to a method by name, and not to one
// that the request names.
func (r *Route) isNamed() bool { return !strings.HasPrefix(r.Method, "{") }
