package cli

import (
	"fmt"
	"strings"
)

// Narrow cuts a text from outside to at most most runes, and replaces what a
// terminal would obey or not show by spaces.
func Narrow(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r == '\'' || r == '\\' { // which %q escapes only because of its quotes
			return r
		}
		if q := fmt.Sprintf("%q", r); len(q) > 2 && q[1] == '\\' {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
