package web

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"html/template"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// view is what the reader of a page has chosen of its live parts.
type view struct {
	By   string // the dimension of the charts
	Days int    // that they show; 1 is by hours
}

func viewOf(r *http.Request) view {
	v := view{By: "region", Days: 1}
	if days, err := strconv.Atoi(r.FormValue("days")); err == nil && slices.Contains(periods(), days) {
		v.Days = days
	}
	if by := r.FormValue("by"); slices.Contains(dimensions(v.Days), by) {
		v.By = by
	}
	return v
}

// periods returns the days that a chart can show.
func periods() []int { return []int{1, 7, 30} }

// part is an element of the page that is replaced when it changes.
type part struct {
	ID      string        `json:"id"`
	HTML    template.HTML `json:"html"`
	bare    string        // HTML without what changes by itself
	version int           // of the last change
	drawn   time.Time
	budget  *usage.BudgetReport // that it shows; nil for other parts
}

// rendered is a view as it was last rendered.
type rendered struct {
	at     time.Time // of the snapshot
	layout string    // changes with the parts that there are
	parts  []*part
}

// Parts that are costly to draw and send are not drawn again for a while.
const (
	dayPause    = time.Minute
	budgetPause = 30 * time.Second // if it has not changed; how far its times are away has
)

// refresh reads what is new, and returns a view of it, and the version of the
// views. Without a client it returns nil.
func (p *Page) refresh(v view) (*snapshot, []part, string) {
	c, release := p.options.Client()
	defer release()
	p.mu.Lock()
	defer p.mu.Unlock()
	if c == nil {
		return nil, nil, ""
	}
	if p.reader == nil || p.reader.client != c {
		if p.reader != nil {
			p.reader.close()
		}
		p.reader, p.views = newReader(p.lifetime, c, &p.options), map[view]*rendered{}
	}
	s := p.reader.update()
	if p.views[v] == nil {
		p.views[v] = &rendered{}
	}
	d := p.views[v]
	p.draw(d, s, v)
	parts := make([]part, len(d.parts))
	for i := range d.parts {
		parts[i] = *d.parts[i]
	}
	return s, parts, fmt.Sprintf("%s.%s.%d", p.boot, d.layout, p.version)
}

// draw renders the parts of a view anew, and marks those that have changed.
func (p *Page) draw(d *rendered, s *snapshot, v view) {
	if d.parts != nil && d.at.Equal(s.At) && s.Err == nil {
		return
	}
	d.at = s.At
	q := &painter{Page: p, snapshot: s, view: v, known: map[string]*part{}, version: p.version + 1}
	for _, old := range d.parts {
		q.known[old.ID] = old
	}
	q.add("state", "state", 0, func() any { return s })
	for i, account := range s.Accounts {
		q.drawAccount(i, account)
	}
	q.add("passes", "passes", 0, func() any { return s })
	q.add("runs", "runs", 0, func() any { return runRows(s) })
	q.add("refusals", "refusals", 0, func() any { return s })
	q.add("log", "log", 0, func() any { return newestEntries(s) })
	q.add("health", "health", 0, func() any { return newHealth(s, p.reader.client.Host()) })
	d.parts, d.layout = q.parts, layoutOf(q.parts)
}

// painter renders a view.
type painter struct {
	*Page
	snapshot *snapshot
	view     view
	known    map[string]*part // as they were rendered last
	parts    []*part
	version  int // of what changes now
}

// add adds a part, rendered anew unless that was done within a pause.
func (q *painter) add(name, id string, pause time.Duration, data func() any) *part {
	next := q.known[id]
	if next == nil || pause == 0 || time.Since(next.drawn) >= pause {
		html := q.execute(name, data())
		bare := withoutTimes(html)
		if next == nil || next.bare != bare {
			q.Page.version = q.version
			next = &part{ID: id, bare: bare, version: q.version}
		}
		next.HTML, next.drawn = template.HTML(html), time.Now()
	}
	q.parts = append(q.parts, next)
	return next
}

// drawAccount adds the parts of an account.
func (q *painter) drawAccount(i int, account *accountState) {
	s := q.snapshot
	id := fmt.Sprintf("cooldowns-%d", i)
	q.add("cooldowns", id, 0, func() any { return &cooldowns{id, s.At, q.formToken(), account} })
	for j, b := range account.Budgets {
		id, pause := fmt.Sprintf("budget-%d-%d", i, j), time.Duration(0)
		if old := q.known[id]; old != nil && reflect.DeepEqual(old.budget, b) {
			pause = budgetPause
		}
		q.add("budget", id, pause, func() any { return newBudgetRow(id, s, b) }).budget = b
	}
	id = fmt.Sprintf("chart-%d", i)
	if q.view.Days > 1 {
		q.add("chart", id, dayPause, func() any {
			// The page keeps it for all who look, so it does not end with one request.
			ctx, cancel := context.WithTimeout(q.lifetime, readTimeout)
			defer cancel()
			c := newDayChart(ctx, id, s, account, q.view, q.reader.catalog)
			c.HistoryErr = q.reader.redact(c.HistoryErr)
			return c
		})
		return
	}
	q.add("chart", id, 0, func() any { return newChart(id, s, account, q.view.By) })
}

// cooldowns are those of an account.
type cooldowns struct {
	ID   string
	Now  time.Time
	Form string
	*accountState
}

func layoutOf(parts []*part) string {
	hash := fnv.New32a()
	for _, one := range parts {
		hash.Write([]byte(one.ID + " "))
	}
	return strconv.FormatUint(uint64(hash.Sum32()), 36)
}

// moving matches what changes by itself as time passes.
var moving = regexp.MustCompile(`<span class="rel"[^>]*>[^<]*</span>|<svg class="line".*?</svg>`)

func withoutTimes(html string) string { return moving.ReplaceAllString(html, "") }

func (p *Page) execute(name string, data any) string {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
		slog.Error("ration: the page cannot be shown", "part", name, "reason", err.Error())
		return "<p>This cannot be shown; the log of ration says why.</p>"
	}
	return strings.TrimSpace(visible(b.String()))
}

// write writes a page.
func (p *Page) write(w http.ResponseWriter, status int, name string, data any) {
	text := p.execute(name, data)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// message is a page that says one thing.
type message struct{ Assets, Title, Text string }

// entries are lines of the log.
type entries struct {
	Rows     []*usage.LineReport
	Accounts int
	Err      error // why the log could not be read
	More     bool
	Scanned  int
}

const shownEntries = 50

// newestEntries returns the last lines of the log, newest first.
func newestEntries(s *snapshot) any {
	e := &entries{Accounts: len(s.Accounts), Err: s.Err}
	var lines []usage.Line
	for _, account := range s.Accounts {
		lines = append(lines, account.activity.newest...)
	}
	slices.SortStableFunc(lines, func(x, y usage.Line) int { return x.At.Compare(y.At) })
	slices.Reverse(lines)
	for i := range lines[:min(len(lines), shownEntries)] {
		e.Rows = append(e.Rows, usage.NewLineReport(&lines[i]))
	}
	return e
}

// health is the state of the ledger, and of this host.
type health struct {
	*snapshot
	Host       string
	Unrecorded quota.Units
}

func newHealth(s *snapshot, host string) any {
	h := &health{snapshot: s, Host: host}
	if s.State.Unrecorded != nil {
		h.Unrecorded = *s.State.Unrecorded
	}
	return h
}
