package catalog

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// What of a query is read; the rest is ignored, so that a pasted page costs no
// more than a sentence.
const (
	maxQueryBytes = 16 << 10
	maxWords      = 32
	maxWordRunes  = 80 // more than the 64 bytes up to which FTS5 cuts endings
)

// matchExpr turns any text into an FTS5 expression that holds quoted strings
// only, so that no text can be a syntax error or an operator. Query.Text says
// what it means.
func matchExpr(text string) (string, error) {
	if len(text) > maxQueryBytes {
		text = text[:maxQueryBytes]
	}
	rest := strings.Map(plain, strings.ToValidUTF8(text, " "))
	var terms []string
	for words := 0; words < maxWords; {
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			break
		}
		part, phrase := rest, false
		if rest[0] == '"' {
			part, rest, phrase = strings.Cut(rest[1:], `"`)
			if !phrase { // never closed: plain words follow
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
		term, n := quote(part, maxWords-words)
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

// plain makes every space and control character, NUL among them, one space.
func plain(r rune) rune {
	if unicode.IsSpace(r) || unicode.IsControl(r) {
		return ' '
	}
	return r
}

// quote makes one FTS5 string of at most limit words, and says how many it
// took; 0 when none of them holds anything that is indexed.
func quote(part string, limit int) (term string, words int) {
	if strings.IndexFunc(part, indexed) < 0 {
		return "", 0
	}
	all := strings.Fields(part)
	all = all[:min(limit, len(all))]
	prefix := false
	for i, w := range all {
		all[i], prefix = cut(w)
	}
	term = `"` + strings.Join(all, " ") + `"`
	if prefix {
		term += "*"
	}
	return term, len(all)
}

// cut shortens a word, and says whether it is meant as a beginning.
func cut(w string) (string, bool) {
	last, _ := utf8.DecodeLastRuneInString(w)
	prefix := last == '*' || unicode.In(last, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
	if runes := []rune(w); len(runes) > maxWordRunes {
		return string(runes[:maxWordRunes]), true
	}
	return w, prefix
}

// indexed says whether FTS5 makes words of r: schema.sql's categories, marks
// aside, which make none alone.
func indexed(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.Co) }
