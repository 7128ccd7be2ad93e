package strictyaml

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// NodeKind is a kind of node.
type NodeKind uint8

// The kinds of node. Other is a value that no method reads: null, true,
// 1.5, 0x10.
const (
	Other NodeKind = iota
	Map
	List
	Text
	Integer
)

// Node is a value or key in a File. If a value is not what a method reads, the
// method reports a mistake to the File and returns zero. The zero Node means
// no value.
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

// Kind returns the kind of n.
func (n Node) Kind() NodeKind {
	switch node := n.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return Map
	case *ast.SequenceNode:
		return List
	case *ast.StringNode:
		return Text
	case *ast.IntegerNode:
		if isDecimal(node.Token.Value) {
			return Integer
		}
	}
	return Other
}

// Place returns the file, line and column of n, as in a Mistake. They are zero
// for the zero Node.
func (n Node) Place() (file string, line, column int) {
	if n.file == nil {
		return "", 0, 0
	}
	line, column = positionOf(firstToken(n.node))
	return n.file.name, line, column
}

// Has reports whether n is a map that has a key.
func (n Node) Has(key string) bool {
	pairs, _ := n.entries()
	return slices.ContainsFunc(pairs, func(pair *ast.MappingValueNode) bool { return pair.Key.GetToken().Value == key })
}

// IsEmpty reports whether n is a map or a list without entries.
func (n Node) IsEmpty() bool {
	if list, isList := n.node.(*ast.SequenceNode); isList {
		return len(list.Values) == 0
	}
	pairs, isMap := n.entries()
	return isMap && len(pairs) == 0
}

// Mistake reports a mistake at n. The message says what is wrong and, after a
// colon, what to write instead.
func (n Node) Mistake(format string, args ...any) {
	if n.file != nil {
		n.file.reportAt(firstToken(n.node), format, args...)
	}
}

// Mistakes returns the number of mistakes in the file so far.
func (n Node) Mistakes() int {
	if n.file == nil {
		return 0
	}
	return len(n.file.mistakes)
}

// Fields reads a map with known keys. It calls Read of each field whose key is
// present, in the order of fields, and reports unknown, repeated and missing
// keys. It reports no missing key if there is an unknown one, which may be a
// typo of it. It returns whether all keys are known.
func (n Node) Fields(fields ...Field) bool {
	known := make([]string, len(fields))
	for i := range fields {
		known[i] = fields[i].Key
	}
	values := make(map[string]Node, len(fields))
	unknown := false
	ok := n.readPairs(formOf(fields), func(key, value Node) {
		if name := key.OneOf("key", known); name != "" {
			values[name] = value
		} else {
			unknown = true
		}
	})
	if !ok {
		return true
	}
	for _, field := range fields {
		if value, ok := values[field.Key]; ok {
			field.Read(value)
		} else if field.Missing != "" && !unknown {
			n.Mistake("missing key %q: write %s", field.Key, field.Missing)
		}
	}
	return !unknown
}

// formOf returns a map of the required fields, or of the first field.
func formOf(fields []Field) string {
	if len(fields) == 0 {
		return "{}"
	}
	var keys []string
	for _, field := range fields {
		if field.Missing != "" {
			keys = append(keys, field.Key+": …")
		}
	}
	if len(keys) == 0 {
		keys = []string{fields[0].Key + ": …"}
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

// Entries reads a map with arbitrary keys. It calls each for every entry in the
// order of the file, and reports repeated keys.
func (n Node) Entries(each func(key, value Node)) { n.readPairs("key: value", each) }

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

// readPairs calls each for every pair of a map, which looks like form.
func (n Node) readPairs(form string, each func(key, value Node)) bool {
	pairs, ok := n.entries()
	if !ok {
		n.Mistake("%s is %s: write a map, %s", n.name, n.describe(), form)
		return false
	}
	seen := make(map[string]bool, len(pairs))
	for _, pair := range pairs {
		text := pair.Key.GetToken().Value
		key := Node{file: n.file, node: pair.Key, name: "the key"}
		if seen[text] {
			key.Mistake("repeated key %s: remove one", quote(text))
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
		n.Mistake("%s is %s: write a list, [first, second]", n.name, n.describe())
		return
	}
	for _, item := range list.Values {
		each(Node{file: n.file, node: item, name: "an item of " + n.name})
	}
}

// Text reads a text of one line and at most most bytes, without control
// characters or surrounding spaces. It returns "" only after a mistake.
func (n Node) Text(most int) string {
	text := n.PaddedText(most)
	if text != strings.TrimSpace(text) {
		n.Mistake("%s is %s: write it without the spaces around it", n.name, quote(text))
		return ""
	}
	return text
}

// PaddedText is like Text, but spaces around the text are part of it.
func (n Node) PaddedText(most int) string {
	text, ok := n.text()
	switch {
	case !ok:
		advice := "write a text"
		if n.isScalar() {
			advice = "write it in quotes if a text is meant"
		}
		n.Mistake("%s is %s: %s", n.name, n.describe(), advice)
	case text == "":
		n.Mistake("%s is empty: write a text, or remove it", n.name)
	case strings.ContainsFunc(text, isControl):
		n.Mistake("%s is %s: write it without control characters", n.name, quote(text))
	case strings.ContainsAny(text, otherSpaces):
		n.Mistake("%s is %s: write it with plain spaces", n.name, quote(text))
	case len(text) > most:
		n.Mistake("%s has %d bytes: write at most %d", n.name, len(text), most)
	default:
		return text
	}
	return ""
}

// Scalar is like Text, but reads numbers, true and false as they are written.
func (n Node) Scalar(most int) string {
	if _, isText := n.text(); !isText && n.isScalar() {
		return firstToken(n.node).Value
	}
	return n.Text(most)
}

// Verbatim reads a text of at most most bytes as it stands: it may be empty,
// and may have spaces around it and any characters but NUL. ok is false only
// after a mistake.
func (n Node) Verbatim(most int) (text string, ok bool) {
	text, ok = n.text()
	switch {
	case !ok && n.isScalar():
		n.Mistake("%s is %s: write it in quotes if a text is meant", n.name, n.describe())
	case !ok:
		n.Mistake("%s is %s: write a text in quotes", n.name, n.describe())
	case len(text) > most:
		n.Mistake("%s has %d bytes: write at most %d", n.name, len(text), most)
	case strings.ContainsRune(text, 0):
		n.Mistake("%s is %s: write it without the character NUL", n.name, quote(text))
	default:
		return text, true
	}
	return "", false
}

// Bool reads true or false.
func (n Node) Bool() bool {
	if node, ok := n.node.(*ast.BoolNode); ok && (node.Token.Value == "true" || node.Token.Value == "false") {
		return node.Value
	}
	shown := n.describe()
	if n.isScalar() {
		shown = quote(firstToken(n.node).Value)
	}
	n.Mistake("%s is not a switch: write true or false", shown)
	return false
}

// maxListed is the most words that a mistake lists: the keys of a document are
// fewer, the methods of an API are more.
const maxListed = 60

// OneOf reads a text that is one of words. what describes them in messages,
// which also list others: what may be written in place of a text. OneOf returns
// "" only after a mistake.
func (n Node) OneOf(what string, words []string, others ...string) string {
	text, ok := n.text()
	if ok && slices.Contains(words, text) {
		return text
	}
	if !n.isScalar() {
		n.Mistake("%s is %s: write one of %s", n.name, n.describe(), strings.Join(slices.Concat(words, others), ", "))
		return ""
	}
	shown := quote(firstToken(n.node).Value)
	if near := Nearest(text, words); near != "" {
		n.Mistake("unknown %s %s: write %s", what, shown, near)
	} else if len(words) <= maxListed {
		n.Mistake("unknown %s %s: write one of %s", what, shown, strings.Join(slices.Concat(words, others), ", "))
	} else {
		n.Mistake("unknown %s %s: remove it", what, shown)
	}
	return ""
}

// Int reads an integer from least to most, in decimal digits without quotes,
// plus sign, exponent or separators.
func (n Node) Int(least, most int64) int64 {
	if n.Kind() == Integer {
		if value, err := strconv.ParseInt(firstToken(n.node).Value, 10, 64); err == nil && value >= least &&
			value <= most {
			return value
		}
	}
	if least == most {
		n.Mistake("%s is %s: write %d", n.name, n.describe(), least)
	} else {
		n.Mistake("%s is %s: write an integer from %d to %d", n.name, n.describe(), least, most)
	}
	return 0
}

// Zone reads the name of a time zone, UTC or an IANA name. It returns nil only
// after a mistake.
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
		n.Mistake("%s is %s: write the IANA name of a zone, such as America/Los_Angeles or UTC", n.name, n.describe())
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

func (n Node) isScalar() bool {
	_, ok := n.node.(ast.ScalarNode)
	return ok && n.describe() != "empty"
}
