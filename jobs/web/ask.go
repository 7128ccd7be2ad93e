package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// question is "would this call pass?", and its answer.
type question struct {
	Call, Region, Lane string
	Pass               bool
	Answer, Cost       string
	RetryAt, Now       time.Time // RetryAt is zero if it would pass, or never will
}

// verbs are what a question may begin with.
func verbs() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead}
}

// answerQuestion answers the question of a request, or returns nil if it
// has none.
func (p *Page) answerQuestion(r *http.Request, c *client.Client) *question {
	q := &question{Call: strings.TrimSpace(r.FormValue("call")), Region: strings.TrimSpace(r.FormValue("region")), Lane: strings.TrimSpace(r.FormValue("lane")), Now: time.Now()}
	if q.Call == "" {
		return nil
	}
	call, passes, err := q.price(c.Table())
	if err != nil || passes != "" {
		q.Pass, q.Answer = err == nil, passes
		if err != nil {
			q.Answer = p.options.Redact(err.Error())
		}
		return q
	}
	call.Caller = quota.Caller{Region: q.Region, Lane: q.Lane}
	var names []string
	for _, b := range c.Guard().Covering(call) {
		names = append(names, b.Name)
	}
	q.Cost = fmt.Sprintf("%s costs %s of %s, charged to %s", human.Name(call.Method), human.Count(call.Units, "unit"), human.Name(call.Account), strings.Join(names, ", "))
	q.probe(r, c, call)
	q.Answer = p.options.Redact(q.Answer)
	return q
}

// price returns the call that is meant: a method, or a URL with or without a
// verb. passes says why a request is not charged.
func (q *question) price(table *costs.Table) (call quota.Call, passes string, err error) {
	verb, target, hasVerb := strings.Cut(q.Call, " ")
	if !hasVerb {
		verb, target = http.MethodGet, q.Call
	}
	if !strings.Contains(target, "://") {
		call, err = table.Call("", q.Call)
		return call, "", err
	}
	for _, known := range verbs() {
		if strings.EqualFold(verb, known) {
			verb = known
		}
	}
	quote, err := table.Quote(verb, strings.TrimSpace(target))
	switch {
	case err != nil:
	case !quote.Guarded:
		passes = "It would pass uncharged: costs.yaml guards no such host."
	case quote.Paid:
		passes = "It would pass: it carries on an upload that was charged when it began."
	}
	return quote.Call, passes, err
}

// probe asks the guard.
func (q *question) probe(r *http.Request, c *client.Client, call quota.Call) {
	err := c.Guard().Probe(r.Context(), call)
	refused, isRefused := errors.AsType[*quota.RefusedError](err)
	switch {
	case err == nil:
		q.Pass, q.Answer = true, "It would pass."
	case isRefused:
		q.Answer, q.RetryAt = "It would be refused: "+refused.Short()+".", refused.RetryAt
		q.Now = client.RefusedAt(refused, nil)
	default:
		q.Answer = "It would not pass: " + err.Error()
	}
}

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
	source := &usage.Source{Ledger: c.Ledger(), Accounts: c.Table().Accounts()}
	var words []string
	for rest := f.Query; rest != ""; rest = strings.TrimSpace(rest) {
		name, value, hasName := strings.Cut(rest, ":")
		var field *string
		if hasName {
			field = filterField(&source.Filter, name)
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
	all := usage.Source{Ledger: source.Ledger, Accounts: source.Accounts} // so that the scan is bounded
	for line, err := range all.Lines(r.Context(), true) {
		if err != nil {
			f.Wrong = "The log cannot be read: " + p.options.Redact(err.Error())
			break
		}
		if f.Scanned++; f.Scanned > mostScanned || len(f.Rows) == mostFound {
			f.More = true
			break
		}
		if report := usage.NewLineReport(&line); matches(report, &source.Filter, words) {
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

// filterField returns the field of a filter by its name, or nil.
func filterField(f *usage.Filter, name string) *string {
	return map[string]*string{"method": &f.Method, "region": &f.Region, "job": &f.Job, "lane": &f.Lane, "run": &f.Run}[name]
}

// matches reports whether a line has all that is asked for.
func matches(l *usage.LineReport, f *usage.Filter, words []string) bool {
	for _, asked := range [][2]string{{f.Method, l.Method}, {f.Region, l.Region}, {f.Job, l.Job}, {f.Lane, l.Lane}, {f.Run, l.Run}} {
		if asked[0] != "" && asked[0] != asked[1] {
			return false
		}
	}
	text := strings.ToLower(strings.Join([]string{l.Method, l.Region, l.Job, l.Lane, l.ID, l.Account, l.Remark}, "\n"))
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
