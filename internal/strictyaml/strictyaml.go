// Package strictyaml reads configuration from a simple subset of YAML: maps,
// lists and one-line values, without anchors, aliases, merge keys, tags or
// block text. It does not stop at a mistake. Reading continues with zero
// values, and [File.Err] returns all mistakes, each with file, line and column
// and what to write instead.
//
//	file := strictyaml.Parse("costs.yaml", data)
//	for _, document := range file.Documents() {
//		document.Fields(
//			strictyaml.Field{Key: "limit", Missing: "limit: 9500",
//				Read: func(n strictyaml.Node) { limit = n.Int(1, 10_000) }},
//		)
//	}
//	if err := file.Err(); err != nil { … }
package strictyaml

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxSize is the maximum size of a file in bytes.
	MaxSize = 1 << 20
	// maxDepth is the maximum nesting of lists and maps in one line. The parser
	// is recursive, and a stack overflow cannot be recovered.
	maxDepth = 32
	// maxTokens is the maximum number of tokens in a file. The parser takes
	// quadratic time in the keys of a map: 15 seconds for 60,000 keys.
	maxTokens = 20_000
)

// File is a YAML file being read. It collects mistakes. It is not safe for
// concurrent use.
type File struct {
	name     string
	nodes    []Node
	mistakes []Mistake
	zones    map[string]*time.Location
}

// Parse parses data. Mistakes give name as the file. After a syntax error the
// File has no documents.
func Parse(name string, data []byte) *File {
	f := &File{name: name}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !f.checkBytes(data) {
		return f
	}
	tokens := lexer.Tokenize(string(data))
	if len(tokens) > maxTokens {
		f.reportAt(tokens[maxTokens], "more than %d words and signs: shorten the file", maxTokens)
		return f
	}
	documents, scalars := f.checkTokens(tokens)
	f.checkLines(tokens)
	if len(f.mistakes) > 0 {
		return f
	}
	if documents == 0 {
		f.report(1, 1, "the file is empty: write version: 1 and what follows it")
		return f
	}
	tree, err := parse(tokens)
	if err != nil {
		f.reportSyntax(err)
		return f
	}
	found := 0
	for _, document := range tree.Docs {
		if document.Body == nil {
			continue
		}
		f.nodes = append(f.nodes, Node{file: f, node: document.Body, name: "the document"})
		found += countScalars(document.Body)
	}
	// goccy/go-yaml v1.19.2 silently drops everything after an empty document.
	// Make sure that no part of a file is ignored.
	if len(f.nodes) != documents || found != scalars {
		f.nodes = nil
		f.report(1, 1, "part of the file cannot be read: write maps and lists in their simplest form")
	}
	return f
}

// parse calls the parser and returns its panics as errors.
func parse(tokens token.Tokens) (tree *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not YAML (%v)", p)
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// Documents returns the YAML documents of the file, none after a syntax error.
func (f *File) Documents() []Node { return f.nodes }

// Err returns an *Error with all mistakes found so far, in the order of their
// places, or nil if there are none.
func (f *File) Err() error {
	if len(f.mistakes) == 0 {
		return nil
	}
	mistakes := slices.Clone(f.mistakes)
	slices.SortStableFunc(mistakes, compareMistakes)
	return &Error{Mistakes: slices.Compact(mistakes)}
}

func (f *File) report(line, column int, format string, args ...any) {
	f.mistakes = append(f.mistakes,
		Mistake{File: f.name, Line: line, Column: column, Message: Redact(fmt.Sprintf(format, args...))})
}

func (f *File) reportAt(tk *token.Token, format string, args ...any) {
	line, column := positionOf(tk)
	f.report(line, column, format, args...)
}

func positionOf(tk *token.Token) (line, column int) {
	if tk == nil || tk.Position == nil {
		return 1, 1
	}
	return max(1, tk.Position.Line), max(1, tk.Position.Column)
}

func (f *File) reportSyntax(err error) {
	at, ok := err.(interface {
		GetToken() *token.Token
		GetMessage() string
	})
	if !ok {
		f.report(1, 1, "%s: write plain YAML", printable(err.Error()))
		return
	}
	message, _, _ := strings.Cut(at.GetMessage(), ". ")
	f.reportAt(at.GetToken(), "%s: correct the colons, quotes or indentation of this line or the one above",
		printable(message))
}

func (f *File) checkBytes(data []byte) bool {
	if len(data) > MaxSize {
		f.report(1, 1, "the file has more than %d bytes: shorten it", MaxSize)
		return false
	}
	line, column := 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			f.report(line, column, "byte %#x is not UTF-8: save the file as UTF-8", data[0])
			return false
		case r == '\n':
			line, column = line+1, 0
		case r == '\r' && !bytes.HasPrefix(data, []byte("\r\n")), r < ' ' && r != '\t' && r != '\r', r == 0x7f,
			r == '\ufeff', r == 0x85, r == 0x2028, r == 0x2029:
			f.report(line, column, "a control character (%U): remove it", r)
			return false
		}
		column++
		data = data[size:]
	}
	return true
}

// checkTokens reports unsupported syntax, and returns the numbers of documents
// and scalars that the parser must find.
func (f *File) checkTokens(tokens token.Tokens) (documents, scalars int) {
	var (
		depth, entries, line int
		content              bool         // the document has some
		header               *token.Token // the --- that began it
		reported             string       // the last mistake
	)
	end := func() {
		if content {
			documents++
		} else if header != nil {
			f.reportAt(header, "an empty document: remove this ---")
		}
		content, header = false, nil
	}
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, entries = tk.Position.Line, 0
			if reported != tabMistake {
				reported = ""
			}
		}
		switch tk.Type {
		case token.CommentType:
			continue
		case token.DocumentHeaderType:
			end()
			header = tk
			continue
		case token.DocumentEndType:
			end()
			continue
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			entries++
		case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.IntegerType, token.FloatType,
			token.BoolType, token.NullType,
			token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType, token.InfinityType, token.NanType:
			scalars++
		}
		content = true
		if why := whyUnread(tk); why != "" && why != reported {
			f.reportAt(tk, "%s", why)
			reported = why
		}
		if depth > maxDepth || entries > maxDepth {
			f.reportAt(tk, "nested more than %d deep: write it flatter", maxDepth)
			return 0, 0
		}
	}
	end()
	return documents, scalars
}

// tabMistake is reported at the first tab, not in all lines with one. Other
// mistakes are reported once a line: an unquoted */6 * * * * has five aliases.
const tabMistake = "a tab before the text: indent all lines with spaces"

// innerTab matches a tab between other characters. goccy/go-yaml v1.19.2 drops
// it from a text without quotes, and misplaces what follows one with them.
var innerTab = regexp.MustCompile(`\S *\t[\t ]*\S`)

// whyUnread returns the mistake for an unsupported token, or "".
func whyUnread(tk *token.Token) string {
	switch tk.Type {
	case token.AnchorType:
		return "an anchor (&): write the value out where it is used"
	case token.AliasType:
		return "an alias (*): write the value out; a text that begins with * goes in quotes"
	case token.MergeKeyType:
		return "a merge key (<<): write the keys out"
	case token.TagType:
		return "a tag (!): remove it; a text that begins with ! goes in quotes"
	case token.DirectiveType:
		return "a directive (%): remove the line"
	case token.MappingKeyType:
		return "a complex key (?): write key: value"
	case token.LiteralType, token.FoldedType:
		return "a block of text (| or >): write it on one line"
	case token.StringType, token.DoubleQuoteType:
		if innerTab.MatchString(tk.Origin) {
			return "a tab in a text: write a space, or \\t in double quotes"
		}
		if isDashed(tk) {
			return "a dash without a space behind it: write a space, or the key in quotes"
		}
	case token.InvalidType:
		if strings.Contains(tk.Error, "'\t'") {
			return tabMistake
		}
		return printable(tk.Error) + ": correct the line; text with special characters goes in quotes"
	}
	return ""
}

// isDashed reports whether a text is a key like -name in a line of its own,
// which is probably an entry of a list.
func isDashed(tk *token.Token) bool {
	isFirst := tk.Prev == nil || tk.Prev.Position.Line < tk.Position.Line
	isKey := tk.Next != nil && tk.Next.Type == token.MappingValueType
	return isFirst && isKey && strings.HasPrefix(tk.Value, "-")
}

func countScalars(node ast.Node) int {
	count := 0
	switch node := node.(type) {
	case *ast.MappingNode:
		for _, pair := range node.Values {
			count += countScalars(pair)
		}
	case *ast.MappingValueNode:
		count = countScalars(node.Key) + countScalars(node.Value)
	case *ast.SequenceNode:
		for _, item := range node.Values {
			count += countScalars(item)
		}
	case *ast.NullNode:
		if node.Token != nil && node.Token.Type == token.NullType {
			count = 1
		}
	case ast.ScalarNode:
		count = 1
	}
	return count
}
