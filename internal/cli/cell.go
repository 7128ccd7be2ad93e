package cli

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cell returns a name from outside fit for a spreadsheet, which runs what
// begins like a formula (OWASP, "CSV Injection"), and for a terminal. The lone
// dash of what is not attributed stays.
func Cell(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if begin := strings.TrimLeft(name, " '\"`"); name != "-" && begin != "" &&
		strings.ContainsRune("=+-@", rune(begin[0])) {
		return "'" + name
	}
	return name
}
