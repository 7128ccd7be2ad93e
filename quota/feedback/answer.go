package feedback

import (
	"bytes"
	"html"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// answer is an upstream's answer while it is read.
type answer struct {
	call    quota.Call
	path    string // of the request's URL, in lower case, if it is known
	status  int
	header  http.Header
	spelled map[string]string // as in reader
	clock   func() time.Time  // the host's
	time    time.Time         // what now returns, once it was called
	doc     any               // the body; nil if it was not read or is not JSON
	texts   []string          // the strings of the body, without markup
	lower   []string          // said in lower case, once a rule needs it
	lines   []string          // a body that is not JSON, without markup, or the beginning of a long one

	rule       string   // the one in hand
	trace      *outcome // nil unless what rules miss is of use
	needsText  bool     // a candidate sees bodies that are not JSON
	candidates []*rule  // those whose conditions on anything but the body hold
	covered    []*coveredBudget
	ofErrors   []*coveredBudget // those of errors, which cover it as well
	inFlight   []*coveredBudget // and those of calls in flight
	buffer     [8]*coveredBudget
	room       struct { // what most answers need, so that it is allocated once
		candidates [8]*rule
		covered    [4]*coveredBudget
	}

	focus     any // the item of a list that the conditions of the rule in hand are about
	focusPath string
}

func (r *reader) newAnswer(call quota.Call, resp *http.Response) *answer {
	a := &answer{call: call, status: resp.StatusCode, header: resp.Header, spelled: r.spelled, clock: r.Now}
	a.candidates = a.room.candidates[:0]
	if req := resp.Request; req != nil && req.URL != nil {
		a.path = strings.ToLower(req.URL.Path)
	}
	for _, c := range r.rules {
		if c.mayMatch(a) {
			a.candidates = append(a.candidates, c)
			a.needsText = a.needsText || c.needsText
		}
	}
	a.covered = a.room.covered[:0]
	a.findBudgets(r.budgets)
	return a
}

// now returns Date plus Age, on the upstream's clock, or without a Date the
// host's time. It parses them when the first time needs it.
func (a *answer) now() time.Time {
	if !a.time.IsZero() {
		return a.time
	}
	date, ok := dateOf(a.header)
	if !ok {
		a.time = a.clock()
		return a.time
	}
	a.time = date
	if age, ok := ParseWait(single(a.header, "Age"), date, 0); ok { // how long a cache has held it
		a.time = date.Add(age)
	}
	return a.time
}

func dateOf(header http.Header) (time.Time, bool) {
	text := single(header, "Date")
	if text == "" {
		return time.Time{}, false
	}
	date, err := http.ParseTime(text)
	return date, err == nil
}

// setBody sets the document or the texts of a body. If it is only the
// beginning of one, it is text for rules.
func (a *answer) setBody(body []byte, isWhole bool) {
	body = bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n")
	if isWhole {
		if a.doc = parseJSON(body); a.doc != nil {
			a.texts = collectTexts(a.doc, nil, 0)
			return
		}
	}
	isShort := isWhole && len(body) <= 8*maxText
	if isUseless := !isShort && !a.needsText; isUseless || len(body) == 0 || body[0] == 0x1f {
		return
	}
	isObject := body[0] == '{' || body[0] == '['
	a.lines = linesOf(string(body), isObject)
	isPage := strings.Contains(a.mediaType(), "html") || htmlBegin.Match(body)
	if isShort && !isPage && !isObject {
		a.texts = a.lines[:min(len(a.lines), maxTexts)]
	}
}

// linesOf returns the texts of a body that is not JSON, without markup, or the
// strings of a JSON document that is cut.
func linesOf(body string, isObject bool) (lines []string) {
	between := "\n"
	if isObject {
		between = `"`
	} else {
		body = tags.ReplaceAllString(inline.ReplaceAllString(body, ""), "\n")
	}
	for line := range strings.SplitSeq(body, between) {
		if line = strings.TrimSpace(html.UnescapeString(line)); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func (a *answer) mediaType() string {
	kind, _, _ := strings.Cut(single(a.header, "Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// isText reports whether a body of a kind may be text; a body of no kind may.
func isText(kind string) bool {
	kind, subtype, _ := strings.Cut(kind, "/")
	isOther := slices.Contains([]string{"image", "audio", "video", "font"}, kind)
	return !isOther && !slices.Contains([]string{"pdf", "zip", "gzip", "octet-stream"}, subtype)
}

func isStream(kind string) bool {
	isLines := func(end string) bool { return strings.HasSuffix(kind, end) }
	return kind == "text/event-stream" || slices.ContainsFunc([]string{"ndjson", "jsonlines", "/jsonl"}, isLines)
}

// single returns the value of a header that occurs once and has at most
// 100 bytes, or "". name is in canonical form, which spares forming it for
// each answer.
func single(header http.Header, name string) string {
	values := header[name]
	if len(values) != 1 || len(values[0]) > 100 {
		return ""
	}
	return strings.TrimSpace(values[0])
}

// mayMatch reports whether a rule's conditions hold, those on the body aside.
func (c *rule) mayMatch(a *answer) bool {
	isIn := func(s [2]int) bool { return s[0] <= a.status && a.status <= s[1] }
	if len(c.statuses) > 0 && !slices.ContainsFunc(c.statuses, isIn) {
		return false
	}
	if len(c.When.Method) > 0 && !matchesAny(c.When.Method, a.call.Method) {
		return false
	}
	if len(c.When.Path) > 0 && !matchesAny(c.When.Path, a.path) {
		return false
	}
	for name, words := range c.When.Header {
		values := a.header[a.spelled[name]]
		if !slices.ContainsFunc(values, func(value string) bool { return matchesAny(words, value) }) {
			return false
		}
	}
	return true
}

// matchesBody reports whether a rule's conditions on the body hold. If that is
// so for one item of a list, the rule's values are read from this item.
func (c *rule) matchesBody(a *answer) bool {
	a.focus, a.focusPath = nil, ""
	for _, path := range c.bodyPaths {
		words := c.When.Body[path]
		is := func(v any) bool {
			text, ok := scalar(v)
			if !ok {
				return v != nil && slices.Contains(words, "*")
			}
			return matchesAny(words, plainText(text))
		}
		if !slices.ContainsFunc(a.lookup(path), is) {
			return false
		}
		a.setFocus(path, is)
	}
	if len(c.When.Text) == 0 {
		return true
	}
	return slices.ContainsFunc(c.When.Text, func(words string) bool {
		words = "*" + strings.ToLower(words) + "*"
		return slices.ContainsFunc(a.lowered(), func(text string) bool { return matches(words, text) })
	})
}

// said returns the texts that rules are about.
func (a *answer) said() []string {
	if a.doc != nil {
		return a.texts
	}
	return a.lines
}

// lowered returns said in lower case.
func (a *answer) lowered() []string {
	if a.lower == nil {
		for _, text := range a.said() {
			a.lower = append(a.lower, strings.ToLower(text))
		}
	}
	return a.lower
}

// lookup returns the values at a path. A path that does not say so begins in
// the first item of a document that is a list.
func (a *answer) lookup(path string) []any {
	if rest, ok := strings.CutPrefix(path, a.focusPath); ok && a.focus != nil {
		if found := lookup(a.focus, rest); len(found) > 0 {
			return found
		}
	}
	if list, ok := a.doc.([]any); ok && len(list) > 0 && !strings.HasPrefix(path, "*") {
		return lookup(list[0], path)
	}
	return lookup(a.doc, path)
}

// setFocus finds the first item for which a condition on a path with * holds.
func (a *answer) setFocus(path string, is func(any) bool) {
	at := strings.LastIndex(path, "*.")
	if at < 0 || a.focus != nil {
		return
	}
	for _, item := range a.lookup(path[:at+1]) {
		if slices.ContainsFunc(lookup(item, path[at+2:]), is) {
			a.focus, a.focusPath = item, path[:at+2]
			return
		}
	}
}

// read returns the texts at the first place of a value that is there.
func (v *RuleValue) read(a *answer) []string {
	var found []string
	switch {
	case v.Is != "":
		found = []string{v.Is}
	case len(v.Header) > 0:
		found = v.readHeader(a)
	case len(v.Body) > 0:
		for i := 0; i < len(v.Body) && len(found) == 0; i++ {
			for _, value := range a.lookup(v.Body[i]) {
				if text, ok := scalar(value); ok {
					found = append(found, text)
				}
			}
		}
	default:
		found = v.readTexts(a)
	}
	if v.Item == 0 && v.LastOf == "" && v.Names == nil {
		return found
	}
	parts := make([]string, len(found))
	for i := range found {
		parts[i] = v.part(found[i])
	}
	return parts
}

func (v *RuleValue) readHeader(a *answer) (found []string) {
	for _, name := range v.Header {
		values := a.header[a.spelled[name]]
		if len(values) == 0 {
			continue
		}
		if v.Path == "" && len(values) == 1 {
			return values[:1:1]
		}
		if v.Path == "" {
			return []string{values[0] + "," + values[1]}
		}
		for _, value := range values {
			for _, one := range lookup(parseJSON([]byte(value[:min(len(value), maxBody)])), v.Path) {
				if text, ok := scalar(one); ok {
					found = append(found, text)
				}
			}
		}
		return found
	}
	return nil
}

// part returns the part of a text that the value is about.
func (v *RuleValue) part(text string) string {
	if v.Item > 0 {
		items := strings.Split(text, ",")
		if v.Item > len(items) {
			return ""
		}
		text = strings.TrimSpace(items[v.Item-1])
	}
	if v.LastOf != "" {
		text = text[strings.LastIndexAny(text, v.LastOf)+1:]
	}
	if name, ok := v.Names[strings.ToLower(text)]; ok {
		return name
	}
	if v.Known {
		return ""
	}
	return text
}

// text returns the first text of the values that are there, or "".
func (v RuleValues) text(a *answer) string {
	for i := range v {
		for _, text := range v[i].read(a) {
			if text != "" {
				return text
			}
		}
	}
	if len(v) > 0 {
		a.missed(&v[0], "text")
	}
	return ""
}

// number returns the number at a value, or false.
func (v *RuleValue) number(a *answer) (float64, bool) {
	if v == nil {
		return 0, false
	}
	for _, text := range v.read(a) {
		if n, ok := parseAmount(text); ok {
			return n, true
		}
	}
	a.missed(v, "number")
	return 0, false
}

// wait returns the longest time or wait among the texts of a value.
func (v *RuleValue) wait(a *answer) (longest moment, ok bool) {
	if v == nil {
		return moment{}, false
	}
	unit, isRate, _ := unitOf(v.In)
	for _, text := range v.read(a) {
		var m moment
		var readable bool
		if n, isNumber := decimal(text); isRate && isNumber {
			if readable = n > 0; readable {
				m.wait = time.Duration(min(float64(unit)/n, float64(MaxDate)))
			}
		} else {
			m, readable = parseMoment(text, a.now, unit)
		}
		if readable && (!ok || m.wait > longest.wait) {
			longest, ok = m, true
		}
	}
	if !ok {
		a.missed(v, "time")
	}
	if v.In != "" {
		longest.bare = false
	}
	return longest, ok
}
