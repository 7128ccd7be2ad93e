package feedback

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// addList reads a header that is a list of limits with parameters: RateLimit of
// draft-ietf-httpapi-ratelimit-headers, one of limit=, remaining=, reset=
// (draft 07), or a list of named policies such as "default";r=50;t=30 (from 08
// on), or one of an upstream's own, such as total=100; remaining=99; resets=41.
// Resets are in seconds. No draft defines a cost; a parameter cost= is read
// anyway.
func (o *outcome) addList(a *answer, name string) {
	list, policies := members(a.header, name), members(a.header, name+"-Policy")
	if slices.ContainsFunc(list, func(m member) bool { return m.name == "remaining" }) {
		var one member
		for _, m := range list {
			one.parameters = append(one.parameters, m.parameters...)
		}
		list = []member{one}
	}
	for _, m := range list {
		l := newLimit()
		l.bucket, l.from = bucketName(m.name), name
		if m.text(m.name) != "" { // it is a parameter
			l.bucket = bucketName(name)
		}
		l.max, l.left = m.number("limit", "q", "total"), m.number("remaining", "r")
		if wait, ok := a.wait(m.text("reset", "t", "resets"), 0); ok {
			l.reset = wait
		}
		if p, ok := policyOf(policies, m); ok && !l.addPolicy(p, a) {
			continue
		}
		if n := m.number("cost"); n >= 0 {
			o.addCost(n, true, name)
		}
		if l.left >= 0 || l.reset >= 0 {
			o.limits = append(o.limits, l)
		}
	}
}

// addPolicy adds what a policy says about a limit. It returns false if that
// counts neither units nor calls.
func (l *limit) addPolicy(p member, a *answer) bool {
	if unit := p.text("qu"); strings.HasPrefix(unit, "content-bytes") || strings.HasPrefix(unit, "concurrent") {
		return false
	}
	if l.max < 0 {
		l.max = p.number("q")
	}
	if l.max < 0 { // older drafts
		l.max = amountAt(p.name, 0)
	}
	if window, ok := a.wait(p.text("w"), 0); ok {
		l.span = window
		if l.reset == unknownReset {
			l.reset = window
		}
	}
	return true
}

// policyOf returns the policy of m's name, or the only policy if m or the
// policy has no name.
func policyOf(policies []member, m member) (member, bool) {
	for _, p := range policies {
		if p.name == m.name {
			return p, true
		}
	}
	if len(policies) == 1 && (m.name == "" || amountAt(policies[0].name, 0) >= 0) {
		return policies[0], true
	}
	return member{}, false
}

// member is one item of a list in a header: a name and parameters, such as
// "default";r=50;t=30. An item name=value has a parameter of its own name.
type member struct {
	name       string
	parameters []string // key, value, key, value
}

// text returns the first of these parameters that m has, or "".
func (m member) text(keys ...string) string {
	for i := 0; i+1 < len(m.parameters); i += 2 {
		if slices.Contains(keys, m.parameters[i]) {
			return m.parameters[i+1]
		}
	}
	return ""
}

// number is text as a number, or -1.
func (m member) number(keys ...string) quota.Units { return amountAt(m.text(keys...), 0) }

// A header with a longer list is ignored.
const (
	maxList    = 1024 // bytes
	maxMembers = 16
)

// members parses a header that is a list, over all its lines. It returns nil if
// the list is too long or malformed.
func members(header http.Header, name string) (list []member) {
	text := strings.Join(header[name], ",")
	isOpen := strings.Count(text, `"`)%2 > 0
	if text == "" || len(text) > maxList || isOpen {
		return nil
	}
	for _, item := range listItem.FindAllString(text, maxMembers+1) {
		var m member
		for i, part := range itemPart.FindAllString(item, -1) {
			key, value, valued := strings.Cut(strings.TrimSpace(part), "=")
			key, value = strings.ToLower(strings.TrimSpace(key)), unquoted(strings.TrimSpace(value))
			if i == 0 {
				m.name = unquoted(key)
			}
			if valued {
				m.parameters = append(m.parameters, key, value)
			}
		}
		list = append(list, m)
	}
	if len(list) > maxMembers {
		return nil
	}
	return list
}

var (
	listItem = pattern("list_item")
	itemPart = pattern("item_part")
)

func unquoted(text string) string {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return strings.ReplaceAll(text[1:len(text)-1], `\`, "")
	}
	return text
}
