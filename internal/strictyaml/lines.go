package strictyaml

import (
	"strings"

	"github.com/goccy/go-yaml/token"
)

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
		f.report(firstLine(tk)+next, strings.Index(lines[next], text)+1,
			"%s continues the text of the line above: correct its indentation, or that line", printable(text))
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
