package strictyaml

import (
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// aliasName matches an intended alias.
var aliasName = regexp.MustCompile(`^\*[A-Za-z_][A-Za-z0-9_-]*$`)

// checkAlias reports the alias at i, once for the value that contains it: an
// unquoted */6 * * * * consists of five.
func (f *File) checkAlias(tokens token.Tokens, i int) {
	if i > 0 && !isSeparator(tokens[i-1]) && tokens[i-1].Position.Line == tokens[i].Position.Line {
		return // a part of the value before it
	}
	var value strings.Builder
	for _, tk := range tokens[i:] {
		if isSeparator(tk) || tk.Position.Line != tokens[i].Position.Line {
			break
		}
		value.WriteString(tk.Origin)
	}
	text := strings.TrimSpace(value.String())
	if aliasName.MatchString(text) {
		f.reportAt(tokens[i], "an alias (*): write the value out; a text that begins with * goes in quotes")
		return
	}
	f.reportAt(tokens[i], "a text that begins with * goes in quotes: write \"%s\"", printable(text))
}

// isSeparator reports whether a token is not part of a plain value.
func isSeparator(tk *token.Token) bool {
	switch tk.Type {
	case token.MappingValueType, token.CollectEntryType, token.MappingStartType, token.MappingEndType, token.SequenceStartType, token.SequenceEndType,
		token.SequenceEntryType, token.MappingKeyType, token.CommentType, token.DocumentHeaderType, token.DocumentEndType, token.AnchorType, token.TagType:
		return true
	}
	return false
}

// checkCommas reports values in braces that contain a comma, such as {limit:
// 9,500}, which YAML reads as a limit of 9 and a key 500.
func (f *File) checkCommas(tokens token.Tokens) {
	var inMap []bool // for each bracket that is open
	for i := 0; i < len(tokens); i++ {
		switch tokens[i].Type {
		case token.MappingStartType, token.SequenceStartType:
			inMap = append(inMap, tokens[i].Type == token.MappingStartType)
			continue
		case token.MappingEndType, token.SequenceEndType:
			inMap = inMap[:max(0, len(inMap)-1)]
			continue
		}
		isInMap := len(inMap) > 0 && inMap[len(inMap)-1]
		isValue := i > 0 && tokens[i-1].Type == token.MappingValueType
		if !isInMap || !isValue {
			continue
		}
		text := tokens[i].Value
		last := i
		for isSplitAfter(tokens, last) {
			text += "," + tokens[last+2].Value
			last += 2
		}
		if last == i {
			continue
		}
		if plain := strings.ReplaceAll(text, ",", ""); strings.Trim(plain, "0123456789") == "" {
			f.reportAt(tokens[i], "%s has a comma, which ends the number between braces: write %s", printable(text), printable(plain))
		} else {
			f.reportAt(tokens[i], "%s has a comma, which ends the value between braces: write \"%s\"", printable(text), printable(text))
		}
		i = last
	}
}

// isSplitAfter reports whether a comma behind the token at i, and a plain text
// behind that, belong to its value.
func isSplitAfter(tokens token.Tokens, i int) bool {
	if i+2 >= len(tokens) || tokens[i+1].Type != token.CollectEntryType {
		return false
	}
	comma, rest := tokens[i+1], tokens[i+2]
	isInOnePiece := isAdjacent(tokens[i], comma) && isAdjacent(comma, rest)
	return isInOnePiece && endsEntry(tokens, i+3) && !isSeparator(rest)
}

// checkBrackets reports the innermost bracket that is not closed, or that a
// bracket of the other kind would close.
func (f *File) checkBrackets(tokens token.Tokens) {
	var open []*token.Token
	for _, tk := range tokens {
		begin := token.MappingStartType
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			open = append(open, tk)
			continue
		case token.SequenceEndType:
			begin = token.SequenceStartType
		case token.MappingEndType:
		default:
			continue
		}
		if len(open) == 0 {
			f.reportAt(tk, "%s closes nothing: remove it", tk.Value)
			return
		}
		if open[len(open)-1].Type != begin {
			break
		}
		open = open[:len(open)-1]
	}
	if len(open) > 0 {
		last := open[len(open)-1]
		f.reportAt(last, "%s opened here is not closed: add its %s", last.Value, map[string]string{"{": "}", "[": "]"}[last.Value])
	}
}

// reportQuote reports the text that follows a quoted text in the line in which
// that ends, or a quoted text that was not closed in its line, and so by the
// quote of another one. It reports whether there is one of these.
func (f *File) reportQuote(tk *token.Token) bool {
	if tk == nil || tk.Prev == nil {
		return false
	}
	if kind := tk.Prev.Type; kind != token.SingleQuoteType && kind != token.DoubleQuoteType {
		return false
	}
	quoted := strings.TrimSpace(tk.Prev.Origin)
	begin := tk.Prev.Position.Line
	end := begin + strings.Count(quoted, "\n")
	next := tk.Next
	isLast := next == nil || next.Type == token.CommentType || next.Position.Line > end
	switch text := printable(tk.Value); {
	case opensText(quoted, tk):
		f.reportAt(tk.Prev, "a quote that is not closed in its line: add its %s", quoted[:1])
	case tk.Position.Line > end || !isLast: // or an entry of a map or list
		return false
	case begin == end:
		f.reportAt(tk, "%s after the closing quote: remove it, or move it into the quotes", text)
	default:
		f.reportAt(tk, "%s after the quote that closes the text of line %d: remove it, or close the text in line %d", text, begin, begin)
	}
	return true
}

// opensText reports whether the last quote of a text of several lines looks
// like the first one of another text, which next continues.
func opensText(quoted string, next *token.Token) bool {
	before := quoted[:len(quoted)-1]
	isFirst := strings.TrimRight(before, " [{:,\r\n") != before && strings.TrimLeft(next.Origin, " \r\n") == next.Origin
	return isFirst && strings.Contains(quoted, "\n")
}

// openedKey matches a key whose colon is followed by a bracket or quote.
var openedKey = regexp.MustCompile(`^([^\s:{}\[\]"']+):[{\["']`)

// checkSpaces reports the first line that begins like costs:{ or -name:, which
// YAML reads as plain text up to the next colon with a space behind it.
func (f *File) checkSpaces(tokens token.Tokens) {
	for i, tk := range tokens {
		isFirst := i == 0 || tokens[i-1].Position.Line < tk.Position.Line
		if tk.Type != token.StringType || !isFirst {
			continue
		}
		isKey := i+1 < len(tokens) && tokens[i+1].Type == token.MappingValueType
		entry, hasDash := strings.CutPrefix(tk.Value, "-")
		if match := openedKey.FindString(tk.Value); match != "" {
			f.reportAt(tk, "a colon without a space behind it: write %s %s", printable(match[:len(match)-1]), match[len(match)-1:])
			return
		} else if isKey && hasDash && !strings.HasPrefix(entry, " ") {
			f.reportAt(tk, "a dash without a space behind it: write - %s", printable(entry))
			return
		}
	}
}

// reportColon reports a text where a key must be, or a key where none may be.
// It reports whether there is one.
func (f *File) reportColon(tk *token.Token) bool {
	if tk == nil || tk.Type != token.StringType {
		return false
	}
	lines := strings.Split(strings.TrimSpace(tk.Origin), "\n")
	isKey := tk.Next != nil && tk.Next.Type == token.MappingValueType
	if tk.Prev == nil || tk.Prev.Position.Line < tk.Position.Line {
		isKey = isKey && len(lines) == 1 && tk.Next.Position.Line == tk.Position.Line
		return !isKey && f.reportNoKey(tk, lines[0])
	}
	switch {
	case !isKey:
		return false
	case len(lines) == 1:
		f.reportAt(tk, "a second colon with a space behind it: write one key a line; text that has one goes in quotes")
	default:
		last := strings.TrimSpace(lines[len(lines)-1])
		line, column := positionOf(tk.Next)
		f.report(line, max(1, column-len([]rune(last))), "%s continues the value of the line above: correct its indentation, or that value", printable(last))
	}
	return true
}

// checkLines reports plain texts that go on in the next line. YAML joins the
// two, so an entry of a list that is indented too far becomes a part of the
// entry above it, with the comment behind it.
func (f *File) checkLines(tokens token.Tokens) {
	for _, tk := range tokens {
		lines := strings.Split(strings.TrimSpace(tk.Origin), "\n")
		if tk.Type != token.StringType || len(lines) == 1 {
			continue
		}
		next := 1
		for strings.TrimSpace(lines[next]) == "" { // the last one is not
			next++
		}
		text := strings.TrimSpace(lines[next])
		f.report(firstLine(tk)+next, strings.Index(lines[next], text)+1, "%s continues the value of the line above: correct its indentation, or write that value in one line", printable(text))
	}
}

// firstLine returns the line in which a text begins. The parser's position of a
// text of several lines may be that of its end.
func firstLine(tk *token.Token) int {
	line, _ := positionOf(tk.Prev)
	if tk.Prev != nil && tk.Prev.Type == token.CommentType {
		line++
	}
	before := len(tk.Origin) - len(strings.TrimLeft(tk.Origin, " \r\n"))
	return line + strings.Count(tk.Origin[:before], "\n")
}

// reportNoKey reports a line that begins with neither a key nor an entry of a
// list. It reports whether the cause is known.
func (f *File) reportNoKey(tk *token.Token, line string) bool {
	if tk.Prev != nil && (tk.Prev.Type == token.SingleQuoteType || tk.Prev.Type == token.DoubleQuoteType) {
		return false // it may continue that
	}
	line = strings.TrimSpace(line)
	key, value, hasColon := strings.Cut(line, ":")
	switch entry, hasDash := strings.CutPrefix(line, "-"); {
	case hasDash:
		f.reportAt(tk, "a dash without a space behind it: write - %s", printable(entry))
	case hasColon && value != "":
		f.reportAt(tk, "a colon without a space behind it: write %s: %s", printable(key), printable(value))
	default:
		f.reportAt(tk, "%s has no colon: write a key, a colon and a space before a value", printable(key))
	}
	return true
}

// isAdjacent reports whether b follows a plain a without a space between.
func isAdjacent(a, b *token.Token) bool {
	return a.Position.Line == b.Position.Line && b.Position.Column == a.Position.Column+len([]rune(a.Value))
}

// endsEntry reports whether the entry of a map ends at i, so that what stands
// before it is a key without a value.
func endsEntry(tokens token.Tokens, i int) bool {
	return i < len(tokens) && (tokens[i].Type == token.CollectEntryType || tokens[i].Type == token.MappingEndType)
}
