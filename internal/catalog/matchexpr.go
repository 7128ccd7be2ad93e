package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The part of a query that is used. The rest is ignored, so that the cost of a
// search is bounded.
const (
	maxQueryBytes = 16 << 10
	maxWords      = 32
	maxWordRunes  = 80 // FTS5 stems words of up to 64 bytes
)

// matchExpr returns the FTS5 expression for a text; see Query.Text. It consists
// of quoted strings only, so that no text is a syntax error or an operator.
func matchExpr(text string) (string, error) {
	if len(text) > maxQueryBytes {
		text = text[:maxQueryBytes]
	}
	rest := strings.Map(spaceControls, strings.ToValidUTF8(text, " "))
	var terms []string
	for words := 0; words < maxWords; {
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			break
		}
		var part string
		var phrase bool
		if rest[0] == '"' {
			part, rest, phrase = strings.Cut(rest[1:], `"`)
			if !phrase { // no closing quote: plain words follow
				rest = part
				continue
			}
		} else {
			end := strings.IndexAny(rest, ` "`)
			if end < 0 {
				end = len(rest)
			}
			part, rest = rest[:end], rest[end:]
		}
		term, n := quoteWords(part, maxWords-words)
		if n > 0 {
			terms = append(terms, term)
		}
		words += n
	}
	if len(terms) == 0 {
		return "", ErrEmptyQuery
	}
	return strings.Join(terms, " "), nil
}

// spaceControls maps space and control characters, including NUL, to a space.
func spaceControls(r rune) rune {
	if unicode.IsSpace(r) || unicode.IsControl(r) {
		return ' '
	}
	return r
}

// quoteWords returns the first words of part, at most limit, as one FTS5
// string, and their number. It returns 0 if part has no character that
// is indexed.
func quoteWords(part string, limit int) (term string, words int) {
	if strings.IndexFunc(part, isIndexed) < 0 {
		return "", 0
	}
	all := strings.Fields(part)
	all = all[:min(limit, len(all))]
	prefix := false
	for i, w := range all {
		all[i], prefix = shortenWord(w)
	}
	term = `"` + strings.Join(all, " ") + `"`
	if prefix {
		term += "*"
	}
	return term, len(all)
}

// shortenWord truncates a word to maxWordRunes and reports whether it matches
// as a prefix.
func shortenWord(w string) (string, bool) {
	last, _ := utf8.DecodeLastRuneInString(w)
	prefix := last == '*' || unicode.In(last, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
	if runes := []rune(w); len(runes) > maxWordRunes {
		return string(runes[:maxWordRunes]), true
	}
	return w, prefix
}

// isIndexed reports whether r can start a word in FTS5: it is in one of the
// categories of schema.sql and is not a mark.
func isIndexed(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.Co) }
