package feedback

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// ietf reads the headers of draft-ietf-httpapi-ratelimit-headers in all
// spellings: RateLimit-Limit, -Remaining and -Reset (to 06), one RateLimit of
// limit=, remaining=, reset= (07), and lists of named policies, "default";r=50;t=30
// (from 08 on). Resets are always seconds. A cost stands in none of the drafts;
// RateLimit-Cost, X-RateLimit-Cost and a parameter cost= are read where sent.
func ietf(a *answer) {
	policies := members(a.header, "Ratelimit-Policy")
	if l := (headers{left: "Ratelimit-Remaining", reset: "Ratelimit-Reset", clock: delta}).read(a); l != nil {
		l[0].max = -1
		if list := members(a.header, "Ratelimit-Limit"); len(list) > 0 {
			l[0].max = units(list[0].name)
		}
		a.limits = append(a.limits, l...)
	}
	list := members(a.header, "Ratelimit")
	if len(list) > 0 && slices.ContainsFunc(list, func(m member) bool { return m.name == "remaining" }) {
		list = []member{together(list)}
	}
	for _, m := range list {
		l := limit{bucket: bucketName(m.name), max: m.number("limit", "q"), left: m.number("remaining", "r"), reset: unknownReset}
		if t := m.number("reset", "t"); t >= 0 {
			l.reset = delta.read(m.text("reset", "t"), a.now)
		}
		if p, ok := policyOf(policies, m); ok {
			if strings.HasPrefix(p.text("qu"), "content-bytes") || strings.HasPrefix(p.text("qu"), "concurrent") {
				continue // neither units nor calls
			}
			if l.max < 0 {
				l.max = p.quota()
			}
			if l.reset == unknownReset {
				l.reset = delta.read(p.text("w"), a.now)
			}
		}
		if n := m.number("cost"); n >= 0 {
			a.cost, a.costed, a.undocumented = n, true, true
		}
		if l.left >= 0 || l.reset >= 0 {
			a.limits = append(a.limits, l)
		}
	}
	for _, name := range []string{"Ratelimit-Cost", "X-Ratelimit-Cost"} {
		if text, ok := single(a.header, name); ok && units(text) >= 0 {
			a.cost, a.costed, a.undocumented = units(text), true, true
		}
	}
}

// policyOf returns the policy of that name, or the only one.
func policyOf(policies []member, m member) (member, bool) {
	for _, p := range policies {
		if p.name == m.name {
			return p, true
		}
	}
	if len(policies) == 1 && (m.name == "" || units(policies[0].name) >= 0) {
		return policies[0], true
	}
	return member{}, false
}

// member is one of a list in a header: a name and parameters, such as
// "default";r=50;t=30. What is written name=value has a parameter of its name.
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

// number returns such a parameter as a number, or -1.
func (m member) number(keys ...string) quota.Units { return units(m.text(keys...)) }

// quota returns a policy's limit: its parameter q, or in older drafts its name.
func (m member) quota() quota.Units {
	if q := m.number("q"); q >= 0 {
		return q
	}
	return units(m.name)
}

// together makes one member of limit=100, remaining=50, reset=30.
func together(list []member) member {
	var one member
	for _, m := range list {
		one.parameters = append(one.parameters, m.parameters...)
	}
	return one
}

// The bounds of a header that is a list.
const (
	maxList    = 1024
	maxMembers = 16
)

// members returns what a header's lines list together, nothing if they are too
// long or cannot be read.
func members(header http.Header, name string) []member {
	text := strings.Join(header.Values(name), ",")
	if text == "" || len(text) > maxList {
		return nil
	}
	var list []member
	for _, item := range split(text, ',') {
		var m member
		for i, part := range split(item, ';') {
			key, value, valued := strings.Cut(strings.TrimSpace(part), "=")
			key, value = strings.ToLower(strings.TrimSpace(key)), unquoted(strings.TrimSpace(value))
			if i == 0 {
				m.name = unquoted(key)
			}
			if valued {
				m.parameters = append(m.parameters, key, value)
			}
		}
		if len(list) == maxMembers {
			return nil
		}
		list = append(list, m)
	}
	return list
}

// split splits at a byte that does not stand within quotes. A quote that does
// not end splits to nothing.
func split(text string, at byte) []string {
	var parts []string
	from, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == at && !quoted:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	if quoted {
		return nil
	}
	return append(parts, text[from:])
}

func unquoted(text string) string {
	if len(text) >= 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return strings.ReplaceAll(text[1:len(text)-1], `\`, "")
	}
	return text
}
