package strictyaml

import (
	"cmp"
	"fmt"
	"strings"
)

// Mistake is a mistake in a file.
type Mistake struct {
	File    string
	Line    int    // from 1
	Column  int    // from 1, in characters
	Message string // what is wrong, and what to write instead
}

// String returns the mistake as file:line:column: message.
func (m Mistake) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Message)
}

// Error holds all mistakes in a file, in the order of their places.
type Error struct {
	Mistakes []Mistake
}

// maxShown is the most mistakes that Error.Error returns.
const maxShown = 100

// Error returns the mistakes, one a line.
func (e *Error) Error() string {
	var lines strings.Builder
	for i, mistake := range e.Mistakes {
		if i > 0 {
			lines.WriteByte('\n')
		}
		if i == maxShown {
			fmt.Fprintf(&lines, "and %d more: correct these first", len(e.Mistakes)-maxShown)
			break
		}
		lines.WriteString(mistake.String())
	}
	return lines.String()
}

func compareMistakes(a, b Mistake) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// Redact returns s with every Google API key in it truncated to its prefix.
func Redact(s string) string {
	const prefix = "AIza"
	if !strings.Contains(s, prefix) {
		return s
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, prefix)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(prefix + "…")
		s = strings.TrimLeft(after, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
	}
}
