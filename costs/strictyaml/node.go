package strictyaml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/ration-dev/ration/costs/duration"
)

// Kind is what a node is.
type Kind uint8

// The kinds of node. Other is what no method reads: null, true, 1.5, 0x10.
const (
	Other Kind = iota
	Map
	List
	Text
	Integer
)

// Node is a value in a File, or the key of one. Its methods report what is
// wrong to the File and return zero values then. The zero Node is no value.
type Node struct {
	file *File
	node ast.Node
	name string // how messages call it
}

// Field is a key that a map may have.
type Field struct {
	Key     string
	Missing string     // what to write when the key is missing; empty: the key is optional
	Read    func(Node) // reads the value of the key
}

// Kind returns what n is.
func (n Node) Kind() Kind {
	switch node := n.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return Map
	case *ast.SequenceNode:
		return List
	case *ast.StringNode:
		return Text
	case *ast.IntegerNode:
		if decimal(node.Token.Value) {
			return Integer
		}
	}
	return Other
}

// Place returns where n stands: its file, line and column, as a Mistake has
// them. The zero Node stands nowhere.
func (n Node) Place() (file string, line, column int) {
	if n.file == nil {
		return "", 0, 0
	}
	line, column = place(start(n.node))
	return n.file.name, line, column
}

// Has reports whether n is a map that has a key.
func (n Node) Has(key string) bool {
	pairs, _ := n.entries()
	for _, pair := range pairs {
		if pair.Key.GetToken().Value == key {
			return true
		}
	}
	return false
}

// Mistake reports what is wrong with n. The message says what to write
// instead, after a colon.
func (n Node) Mistake(format string, args ...any) {
	if n.file != nil {
		n.file.addAt(start(n.node), format, args...)
	}
}

// Mistakes returns how many mistakes the file has so far.
func (n Node) Mistakes() int {
	if n.file == nil {
		return 0
	}
	return len(n.file.mistakes)
}

// Fields reads a map whose keys are known: the Read of each field whose key
// is there, in the order of fields. It reports unknown, repeated and missing
// keys; where a key is unknown no other is missing, since it may be meant.
func (n Node) Fields(fields ...Field) {
	known := make([]string, len(fields))
	for i := range fields {
		known[i] = fields[i].Key
	}
	values := make(map[string]Node, len(fields))
	unknown := false
	ok := n.pairs(func(key, value Node) {
		if name := key.OneOf("key", known); name != "" {
			values[name] = value
		} else {
			unknown = true
		}
	})
	if !ok {
		return
	}
	for _, field := range fields {
		if value, ok := values[field.Key]; ok {
			field.Read(value)
		} else if field.Missing != "" && !unknown {
			n.Mistake("missing key %q: write %s", field.Key, field.Missing)
		}
	}
}

// Entries reads a map whose keys are names, in the order of the file. It
// reports repeated keys; each decides about the others.
func (n Node) Entries(each func(key, value Node)) { n.pairs(each) }

// entries returns the pairs of a map.
func (n Node) entries() (pairs []*ast.MappingValueNode, ok bool) {
	switch node := n.node.(type) {
	case *ast.MappingNode:
		return node.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, true
	}
	return nil, false
}

func (n Node) pairs(each func(key, value Node)) bool {
	pairs, ok := n.entries()
	if !ok {
		n.Mistake("%s is %s: write a map, key: value", n.name, n.shown())
		return false
	}
	seen := make(map[string]bool, len(pairs))
	for _, pair := range pairs {
		text := pair.Key.GetToken().Value
		key := Node{file: n.file, node: pair.Key, name: "the key"}
		if seen[text] {
			key.Mistake("repeated key %s: remove one", quoted(text))
			continue
		}
		seen[text] = true
		each(key, Node{file: n.file, node: pair.Value, name: printable(text)})
	}
	return true
}

// Items reads a list, in order.
func (n Node) Items(each func(Node)) {
	list, ok := n.node.(*ast.SequenceNode)
	if !ok {
		n.Mistake("%s is %s: write a list, [first, second]", n.name, n.shown())
		return
	}
	for _, item := range list.Values {
		each(Node{file: n.file, node: item, name: "an item of " + n.name})
	}
}

// Len returns how many items a list has, and 0 for what is none.
func (n Node) Len() int {
	if list, ok := n.node.(*ast.SequenceNode); ok {
		return len(list.Values)
	}
	return 0
}

// Text reads a text of one line and at most so many bytes, without control
// characters or spaces around it. It returns "" for a mistake only.
func (n Node) Text(most int) string {
	text, ok := n.text()
	switch {
	case !ok:
		advice := "write a text"
		if n.scalar() {
			advice = "write it in quotes if a text is meant"
		}
		n.Mistake("%s is %s: %s", n.name, n.shown(), advice)
	case text == "":
		n.Mistake("%s is empty: write a text, or remove it", n.name)
	case text != strings.TrimSpace(text):
		n.Mistake("%s is %s: write it without the spaces around it", n.name, quoted(text))
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }):
		n.Mistake("%s is %s: write it without control characters", n.name, quoted(text))
	case len(text) > most:
		n.Mistake("%s has %d bytes: write at most %d", n.name, len(text), most)
	default:
		return text
	}
	return ""
}

// OneOf reads a text that is one of words; what says what they are. It
// returns "" for a mistake only.
func (n Node) OneOf(what string, words []string) string {
	text, ok := n.text()
	if ok && slices.Contains(words, text) {
		return text
	}
	shown := n.shown()
	if n.scalar() {
		shown = quoted(start(n.node).Value)
	}
	if near := Nearest(text, words); near != "" {
		n.Mistake("unknown %s %s: write %s", what, shown, near)
	} else if len(words) <= 20 {
		n.Mistake("unknown %s %s: write one of %s", what, shown, strings.Join(words, ", "))
	} else {
		n.Mistake("unknown %s %s: remove it", what, shown)
	}
	return ""
}

// Int reads a plain integer from least to most: no quotes, signs, exponents,
// separators, or other bases.
func (n Node) Int(least, most int64) int64 {
	if n.Kind() == Integer {
		if value, err := strconv.ParseInt(start(n.node).Value, 10, 64); err == nil && value >= least && value <= most {
			return value
		}
	}
	if least == most {
		n.Mistake("%s is %s: write %d", n.name, n.shown(), least)
	} else {
		n.Mistake("%s is %s: write an integer from %d to %d", n.name, n.shown(), least, most)
	}
	return 0
}

// Duration reads a duration as duration.Parse does: 30s, 1h30m, 24h, 7d. It
// reports a number without a unit and what is not from least to most.
func (n Node) Duration(least, most time.Duration) time.Duration {
	text, _ := n.text()
	return n.duration(text, duration.Parse, least, most)
}

// Seconds is Duration for a value whose natural unit is the second, such as
// the time that a call may wait: a plain number is one of seconds.
func (n Node) Seconds(least, most time.Duration) time.Duration {
	text, ok := n.text()
	if !ok && n.Kind() == Integer {
		text = start(n.node).Value
	}
	return n.duration(text, duration.ParseSeconds, least, most)
}

func (n Node) duration(text string, parse func(string) (time.Duration, error), least, most time.Duration) time.Duration {
	if value, err := parse(text); err == nil && value >= least && value <= most {
		return value
	}
	n.Mistake("%s is %s: write a duration from %s to %s%s", n.name, n.shown(), brief(least), brief(most), examples(least, most))
	return 0
}

// brief is a duration as people write it: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// examples names durations from least to most.
func examples(least, most time.Duration) string {
	var fit []string
	for _, d := range []time.Duration{24 * time.Hour, 10 * time.Minute, 30 * time.Second} {
		if d >= least && d <= most {
			fit = append(fit, brief(d))
		}
	}
	switch last := len(fit) - 1; last {
	case -1:
		return ""
	case 0:
		return ", such as " + fit[0]
	default:
		return ", such as " + strings.Join(fit[:last], ", ") + " or " + fit[last]
	}
}

// Zone reads the name of a time zone, UTC or an IANA name. It returns nil for
// a mistake only.
func (n Node) Zone() *time.Location {
	if n.file == nil {
		return nil
	}
	text, ok := n.text()
	if zone := n.file.zones[text]; ok && zone != nil {
		return zone
	}
	var zone *time.Location
	if ok && text != "" && text != "Local" { // Local would differ from host to host
		zone, _ = time.LoadLocation(text)
	}
	if zone == nil {
		n.Mistake("%s is %s: write the IANA name of a zone, such as America/Los_Angeles or UTC", n.name, n.shown())
		return nil
	}
	if n.file.zones == nil {
		n.file.zones = map[string]*time.Location{}
	}
	n.file.zones[text] = zone
	return zone
}

func (n Node) text() (string, bool) {
	if node, ok := n.node.(*ast.StringNode); ok {
		return node.Value, true
	}
	return "", false
}

func (n Node) scalar() bool {
	_, ok := n.node.(ast.ScalarNode)
	return ok && n.shown() != "empty"
}

// shown returns n as messages show it.
func (n Node) shown() string {
	switch node := n.node.(type) {
	case nil:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a map"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		if node.Token == nil || node.Token.Type != token.NullType {
			return "empty"
		}
		return node.Token.Value
	case *ast.StringNode:
		return quoted(node.Value)
	}
	return printable(start(n.node).Value)
}

// start returns the first token of a node.
func start(node ast.Node) *token.Token {
	switch node := node.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !node.IsFlowStyle && len(node.Values) > 0 {
			return start(node.Values[0].Key)
		}
		return node.Start
	case *ast.MappingValueNode:
		return start(node.Key)
	case *ast.SequenceNode:
		return node.Start
	}
	return node.GetToken()
}

// decimal reports whether s is an integer as people write it.
func decimal(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || digits[0] == '0' && s != "0" {
		return false
	}
	return !strings.ContainsFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
}

// quoted returns text from a file fit for a terminal, in quotes.
func quoted(s string) string { return fmt.Sprintf("%q", cut(s)) }

// printable is quoted without the quotes.
func printable(s string) string {
	s = quoted(s)
	return s[1 : len(s)-1]
}

func cut(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
