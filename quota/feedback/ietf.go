package feedback

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// ietf reads the headers of draft-ietf-httpapi-ratelimit-headers in all
// versions: RateLimit-Limit, -Remaining and -Reset (up to 06), one RateLimit of
// limit=, remaining=, reset= (07), and lists of named policies such as
// "default";r=50;t=30 (from 08 on). Resets are in seconds. No draft defines a
// cost; RateLimit-Cost, X-RateLimit-Cost and a parameter cost= are read anyway.
func ietf(res *response) {
	policies := members(res.header, "Ratelimit-Policy")
	if l := (limitHeaders{left: "Ratelimit-Remaining", reset: "Ratelimit-Reset", format: delta}).read(res); l != nil {
		if list := members(res.header, "Ratelimit-Limit"); len(list) > 0 {
			l[0].max = units(list[0].name)
		}
		res.limits = append(res.limits, l...)
	}
	list := members(res.header, "Ratelimit")
	if slices.ContainsFunc(list, func(m member) bool { return m.name == "remaining" }) {
		var one member
		for _, m := range list {
			one.parameters = append(one.parameters, m.parameters...)
		}
		list = []member{one}
	}
	for _, m := range list {
		l := limit{bucket: bucketName(m.name), max: m.number("limit", "q"), left: m.number("remaining", "r")}
		l.reset = delta.parse(m.text("reset", "t"), res.now)
		if p, ok := policyOf(policies, m); ok {
			if strings.HasPrefix(p.text("qu"), "content-bytes") || strings.HasPrefix(p.text("qu"), "concurrent") {
				continue // neither units nor calls
			}
			if l.max < 0 {
				l.max = p.number("q")
			}
			if l.max < 0 { // older drafts
				l.max = units(p.name)
			}
			if l.reset == unknownReset {
				l.reset = delta.parse(p.text("w"), res.now)
			}
		}
		if n := m.number("cost"); n >= 0 {
			res.setUndocumentedCost(n)
		}
		if l.left >= 0 || l.reset >= 0 {
			res.limits = append(res.limits, l)
		}
	}
	for _, name := range []string{"Ratelimit-Cost", "X-Ratelimit-Cost"} {
		if n := units(single(res.header, name)); n >= 0 {
			res.setUndocumentedCost(n)
		}
	}
}

func (res *response) setUndocumentedCost(cost quota.Units) {
	res.cost = cost
	res.hasCost, res.undocumented = true, true
}

// policyOf returns the policy of m's name, or the only policy if m or the
// policy has no name.
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
func (m member) number(keys ...string) quota.Units { return units(m.text(keys...)) }

// A header with a longer list is ignored.
const (
	maxList    = 1024 // bytes
	maxMembers = 16
)

// members parses a header that is a list, over all its lines. It returns nil if
// the list is too long or malformed.
func members(header http.Header, name string) []member {
	text := strings.Join(header[name], ",")
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

// split splits text at a byte that is not within quotes. It returns nil if a
// quote does not end.
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
