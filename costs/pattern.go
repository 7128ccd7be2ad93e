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

// pattern is a line of routes: a verb, or any, a path whose segments may be
// parameters, and the method of the requests that match.
type pattern struct {
	text     string // as in the file
	verb     string // "" matches any
	segments []segment
	to       *choice // the method; nil means the text of the capturing segment
}

type segment struct {
	kind    segmentKind
	literal string
	name    string // of {name}
	capture bool   // its text is the method's name
}

// The kinds, the most exact first.
type segmentKind uint8

const (
	literalSegment segmentKind = iota + 1
	anySegment                 // {name}: one segment
	restSegment                // {name...}: all that follow, or none
)

var (
	literalForm   = regexp.MustCompile(`^[A-Za-z0-9._~!$&'()*+,=:@-]+$`)
	parameterForm = regexp.MustCompile(`^\{([a-z][A-Za-z0-9_]*)(\.\.\.)?\}$`)
	methodForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// commonVerbs are those of net/http. A route may have another one, unless it is
// nearly one of these: the requests meant would be priced by a wider route.
var commonVerbs = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace}

// readRoutes reads routes such as {"GET /v1/{path...}": read}.
func (d *document) readRoutes(n strictyaml.Node) {
	n.Entries(func(key, value strictyaml.Node) {
		text, method := key.Text(maxText), ""
		var by *choice
		if value.Kind() == strictyaml.Map {
			by = readChoice(value)
		} else {
			method = value.Text(quota.MaxLabel)
		}
		isMisread := by == nil && method == ""
		if text == "" || isMisread {
			return
		}
		p, err := parsePattern(text, method)
		if err != nil {
			key.Mistake("%v", err)
			return
		}
		if by != nil {
			p.to = by
		}
		for i, other := range d.site.patterns {
			if other.compare(p) != 0 {
				continue
			}
			if d.origins[originKey([]string{"routes", other.text})].Preset == "" {
				key.Mistake("route %q takes the same requests as %q: remove one", text, other.text)
				return
			}
			d.site.patterns = slices.Delete(d.site.patterns, i, i+1) // the preset's
			break
		}
		d.site.patterns = append(d.site.patterns, p)
		d.setOrigin(key, "routes", p.text)
	})
	if n.IsEmpty() {
		n.Mistake("no route: write one, such as \"GET /v1/{path...}\": read")
	}
	slices.SortFunc(d.site.patterns, (*pattern).compare)
	d.Routes = nil
	for _, p := range d.site.patterns {
		d.Routes = append(d.Routes, cmp.Or(p.to, &choice{method: "{method}"}).routes(p.text)...)
	}
}

func parsePattern(text, method string) (*pattern, error) {
	p := &pattern{text: text}
	verb, rest, found := strings.Cut(text, " ")
	if p.verb = verb; !found {
		p.verb, rest = "", text
	} else if !isUpper(p.verb) {
		return nil,
			fmt.Errorf("%q is not a verb: write it in capital letters before the path, such as GET /v1/items, or "+
				"leave it out for all", p.verb)
	} else if near := strictyaml.Nearest(p.verb, commonVerbs); near != "" && near != p.verb {
		return nil, fmt.Errorf("unknown verb %q: write %s", p.verb, near)
	}
	if !strings.HasPrefix(rest, "/") {
		return nil, fmt.Errorf("route %q has no path: write a verb and a path, such as GET /v1/items/{id}", text)
	}
	captured, names := false, map[string]bool{}
	parts := strings.Split(rest[1:], "/")
	if rest == "/" {
		parts = nil
	}
	for i, part := range parts {
		parameter := parameterForm.FindStringSubmatch(part)
		switch {
		case part == "*", part == "**":
			return nil,
				fmt.Errorf("part %q of route %q is no wildcard: write {name} for any one part, or {name...} for all "+
					"that follow", part, text)
		case parameter == nil && strings.Contains(part, "?"):
			return nil,
				fmt.Errorf("route %q has a query: write the path alone, and {query: NAME, is: {\"*\": METHOD}, or: "+
					"METHOD} for its method", text)
		case parameter == nil && (isDotPart(part) || !literalForm.MatchString(part)):
			return nil,
				fmt.Errorf("part %q of route %q: write plain letters, {name} for any one part, or {name...} for all "+
					"that follow", part, text)
		case parameter == nil:
			p.segments = append(p.segments, segment{kind: literalSegment, literal: part})
		case names[parameter[1]]:
			return nil, fmt.Errorf("route %q names {%s} twice: give each its own name", text, parameter[1])
		case parameter[2] != "" && i < len(parts)-1:
			return nil, fmt.Errorf("route %q goes on after %s: write it last", text, part)
		case parameter[2] != "":
			p.segments = append(p.segments, segment{kind: restSegment})
		default:
			capture := method == part
			captured = captured || capture
			p.segments = append(p.segments, segment{kind: anySegment, name: parameter[1], capture: capture})
		}
		if parameter != nil {
			names[parameter[1]] = true
		}
	}
	if !captured && method != "" && !methodForm.MatchString(method) {
		return nil, fmt.Errorf("route %q leads to method %q: write a name, or one of the path's {name}", text, method)
	}
	if !captured {
		p.to = &choice{method: method}
	}
	return p, nil
}

// compare orders patterns by exactness: segment by segment, a literal comes
// before {name}, and that before {name...}; then a pattern with a verb comes
// before one without. 0 means that they match the same requests.
func (p *pattern) compare(other *pattern) int {
	for i := range max(len(p.segments), len(other.segments)) {
		var a, b segment // a missing segment is the most exact
		if i < len(p.segments) {
			a = p.segments[i]
		}
		if i < len(other.segments) {
			b = other.segments[i]
		}
		if order := cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.literal, b.literal)); order != 0 {
			return order
		}
	}
	return -cmp.Compare(p.verb, other.verb) // none is the least
}

// isLiteral reports whether a part of a path is the segment's literal. loose
// ignores case.
func (s *segment) isLiteral(part string, loose bool) bool {
	return part == s.literal || loose && strings.EqualFold(part, s.literal)
}

// matches reports whether a path without its leading slash matches p, and
// returns the text of the capturing segment. loose ignores case.
func (p *pattern) matches(path string, loose bool) (name string, ok bool) {
	more := path != ""
	for _, s := range p.segments {
		if s.kind == restSegment {
			return name, true
		}
		if !more {
			return "", false
		}
		var part string
		part, path, more = strings.Cut(path, "/")
		switch {
		case s.kind == anySegment && part == "":
			return "", false
		case s.kind == literalSegment && !s.isLiteral(part, loose):
			return "", false
		case s.capture:
			name = part
		}
	}
	return name, !more
}

// findMethod returns the method of a request, or the reason why it is not
// certain. It is certain if every way in which servers may read the path leads
// to the same method.
func (s *site) findMethod(verb string, req *http.Request) (method, reason string) {
	if !isUpper(verb) {
		return "", "the verb is not in capital letters; write it as the upstream documents it"
	}
	raw := cmp.Or(req.URL.EscapedPath(), "/")
	found, name := s.findPattern(verb, raw, false)
	if found == nil {
		return "", s.whyNoPattern(raw)
	}
	isCertain := false
	if whole, hasSlash := keepSlashes(raw); hasSlash {
		isCertain = s.isOneMethod(verb, raw, whole)
	} else {
		isCertain = sameReading(raw, func(reading string) bool {
			other, otherName := s.findPattern(verb, reading, true)
			return other == found && strings.EqualFold(name, otherName)
		})
	}
	if !isCertain {
		return "",
			"the path can be read in several ways; write it plainly, letter for letter as the upstream documents it"
	}
	if found.to != nil {
		return found.to.find(s, req)
	}
	if reason := s.whyNoName(name); reason != "" {
		return "", "its path" + reason
	}
	return name, ""
}

// whyNoName returns why a part of a request does not name a method, or "".
func (s *site) whyNoName(part string) string {
	if !methodForm.MatchString(part) || len(part) > quota.MaxLabel || s.isMisspelt(part) {
		return " names no method; write it as the upstream documents it, letter for letter"
	}
	return ""
}

// isUpper reports whether a verb consists of capital letters.
func isUpper(verb string) bool {
	for i := range len(verb) {
		if verb[i] < 'A' || verb[i] > 'Z' {
			return false
		}
	}
	return verb != "" && len(verb) <= 20
}

// isMisspelt reports whether a method with a cost has the same name in
// another case.
func (s *site) isMisspelt(name string) bool {
	if _, ok := s.costs[name]; ok {
		return false
	}
	for method := range s.costs {
		if strings.EqualFold(method, name) {
			return true
		}
	}
	return false
}

// takes reports whether p is for requests with a verb.
func (p *pattern) takes(verb string) bool {
	isHeadOfGet := p.verb == http.MethodGet && verb == http.MethodHead
	return p.verb == "" || p.verb == verb || isHeadOfGet
}

// findPattern returns the most exact pattern that matches a request. Since a
// HEAD costs as much as its GET, a route for GET matches it unless there is one
// for HEAD.
func (s *site) findPattern(verb, path string, loose bool) (found *pattern, name string) {
	path, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, ""
	}
	for _, p := range s.patterns {
		if p.takes(verb) {
			if name, ok := p.matches(path, loose); ok {
				return p, name
			}
		}
	}
	return nil, ""
}

// maxDecodings is the most times that a path may be decoded.
const maxDecodings = 4

// sameReading reports whether same returns true for every reading of a path by
// servers, proxies and caches: as it is, decoded any number of times, and with
// empty segments and ;parameters removed. It returns false for paths with
// segments that hasDotPart reports, and for overlong UTF-8.
func sameReading(raw string, same func(string) bool) bool {
	if isPlainPath(raw) {
		return same(raw)
	}
	reading := raw
	for range maxDecodings {
		if hasDotPart(reading) || hasOverlong(reading) {
			return false
		}
		if !same(reading) || !same(cleanPath(reading)) {
			return false
		}
		decoded := decodePath(reading)
		if decoded == reading {
			return true // it cannot be decoded further
		}
		reading = decoded
	}
	return false
}

// isPlainPath reports whether there is only one way to read a path, apart
// from case.
func isPlainPath(raw string) bool {
	after := byte('/')
	for i := 1; i < len(raw); i++ {
		c := raw[i]
		isInside := after != '/' && i < len(raw)-1
		switch {
		case isLower(c), isCapital(c), isDigit(c), c == '-', c == '_':
		case c == '.' && isInside && raw[i+1] != '/':
		case c == '/' && isInside:
		default:
			return false
		}
		after = c
	}
	return true
}

// hasDotPart reports whether a server could read a segment as . or .., or leave
// out one of dots and blanks alone.
func hasDotPart(reading string) bool {
	for part := range strings.FieldsFuncSeq(reading, func(r rune) bool { return r == '/' || r == '\\' }) {
		part, _, _ = strings.Cut(part, ";")
		if strings.Contains(part, ".") && strings.Trim(part, "."+blanks) == "" {
			return true
		}
	}
	return false
}

func isDotPart(part string) bool { return part == "." || part == ".." }

const blanks = " \t\r\n\x00"

// cleanPath returns a path as the most lenient server reads it.
func cleanPath(reading string) string {
	return cleanSlashes(trimSegments(cutSegmentParameters(cutQuery(splitBackslashes(reading)))))
}

func (s *site) whyNoPattern(raw string) string {
	var verbs []string
	for _, p := range s.patterns {
		if _, ok := p.matches(strings.TrimPrefix(raw, "/"), false); ok {
			verbs = append(verbs, p.verb)
		}
	}
	if len(verbs) > 0 {
		slices.Sort(verbs)
		return "the path takes no such verb; write " + strings.Join(slices.Compact(verbs), " or ")
	}
	return "no route in costs.yaml has this path; add it to routes, or write it as the upstream documents it"
}
