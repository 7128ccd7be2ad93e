package web

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/usage"
)

// found is what a search of the log has found.
type found struct {
	Query string
	Wrong string // what is wrong with the query
	entries
}

const (
	mostFound   = 200
	mostScanned = 200_000 // entries that one search reads
)

// find searches the log for the words of a request, newest first, or returns
// nil if there are none. A word such as region:IN matches one attribute, and
// another one any of them. A name may be quoted: job:"a name". The name - and
// the empty one match entries without that attribute.
func (p *Page) find(r *http.Request, c *client.Client) *found {
	f := &found{Query: strings.TrimSpace(r.FormValue("q"))}
	if f.Query == "" {
		return nil
	}
	f.Accounts = len(c.Table().Accounts())
	source := &usage.LogReader{Guard: c.Guard(), Accounts: c.Table().Accounts()}
	var words []string
	for rest := f.Query; rest != ""; rest = strings.TrimSpace(rest) {
		name, value, hasName := strings.Cut(rest, ":")
		var field *string
		if hasName {
			field = source.Filter.Field(name)
		}
		if field != nil {
			rest = value
		}
		value, rest = firstWord(rest)
		if field != nil {
			*field = cmp.Or(value, usage.Unattributed)
		} else {
			words = append(words, strings.ToLower(value))
		}
	}
	source.Filter.Run = strings.ToLower(source.Filter.Run)
	spelled := source.Filter
	spelled.Region = p.options.Region(spelled.Region, c.Table())
	all := usage.LogReader{Guard: source.Guard, Accounts: source.Accounts} // so that the scan is bounded
	for line, err := range all.Lines(r.Context(), true) {
		if err != nil {
			f.Wrong = "The log cannot be read: " + p.options.Redact(err.Error())
			break
		}
		if f.Scanned++; f.Scanned > mostScanned || len(f.Rows) == mostFound {
			f.More = true
			break
		}
		isSelected := source.Filter.Selects(&line.Entry) || spelled.Selects(&line.Entry)
		if report := usage.NewLineReport(&line); isSelected && hasWords(report, words) {
			f.Rows = append(f.Rows, report)
		}
	}
	return f
}

// firstWord returns the first word of a search, which may be in Go's quotes,
// and the rest.
func firstWord(text string) (word, rest string) {
	if strings.HasPrefix(text, `"`) {
		if quoted, err := strconv.QuotedPrefix(text); err == nil {
			word, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
			return word, text[len(quoted):]
		}
	}
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// searchWord returns a name as a search finds it.
func searchWord(name string) string {
	if strings.HasPrefix(name, `"`) || strings.ContainsFunc(name, unicode.IsSpace) {
		return strconv.Quote(name)
	}
	return name
}

// hasWords reports whether a line has each of some words in lower case.
func hasWords(l *usage.LineReport, words []string) bool {
	text := strings.ToLower(strings.Join([]string{l.Method, l.Region, l.Job, l.Lane, l.Host, l.Key, l.ID, l.Account,
		l.Remark}, "\n"))
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
