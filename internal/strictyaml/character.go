package strictyaml

import (
	"strings"
	"unicode"
)

// otherSpaces look like a space and are not one. A name that was copied from a
// web page with one of them would be another name than it looks.
const otherSpaces = "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f"

// isControl reports whether r is a control character, sets the direction of the
// text around it, or is one of those without a width that separate words. Two
// names that differ in such a character alone look the same.
func isControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) ||
		strings.ContainsRune("\u00ad\u200b\u2060\ufeff", r)
}
