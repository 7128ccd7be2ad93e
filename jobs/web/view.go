package web

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"html/template"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// view is what the reader of a page has chosen of its live parts.
type view struct{ By string }

func viewOf(r *http.Request) view {
	if by := r.FormValue("by"); slices.Contains(dimensions(), by) {
		return view{by}
	}
	return view{byRegion}
}

// part is an element of the page that is replaced when it changes.
type part struct {
	ID      string        `json:"id"`
	HTML    template.HTML `json:"html"`
	bare    string        // HTML without what changes by itself
	version int           // of the last change
	drawn   time.Time
}

// rendered is a view as it was last rendered.
type rendered struct {
	at     time.Time // of the snapshot
	layout string    // changes with the parts that there are
	parts  []*part
}

// Parts that are costly to draw and send are not drawn again for a while.
const chartPause = 10 * time.Second

// newest reads what is new, and returns a view of it, and the version of the views.
// Without a client it returns nil.
func (p *Page) newest(ctx context.Context, v view) (*snapshot, []part, string) {
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
		p.reader, p.views = newReader(c, &p.options), map[view]*rendered{}
	}
	r := p.reader
	s := r.update(ctx, func() (func(), bool) { // for a whole reading, which goes on after this one
		again, release := p.options.Client()
		if again != r.client {
			release()
			return nil, false
		}
		return release, true
	})
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
	known := map[string]*part{}
	for _, old := range d.parts {
		known[old.ID] = old
	}
	d.parts = d.parts[:0:0]
	version := p.version + 1
	add := func(name, id string, pause time.Duration, data func() any) {
		next := known[id]
		if next == nil || pause == 0 || time.Since(next.drawn) >= pause {
			html := p.execute(name, data())
			if bare := withoutTimes(html); next == nil || next.bare != bare {
				p.version = version
				next = &part{ID: id, HTML: template.HTML(html), bare: bare, version: version}
			}
			next.drawn = time.Now()
		}
		d.parts = append(d.parts, next)
	}
	add("state", "state", 0, func() any { return s })
	for i, account := range s.Accounts {
		p.drawAccount(add, i, s, account, v)
	}
	add("passes", "passes", 0, func() any { return passRows(s) })
	add("runs", "runs", 0, func() any { return runRows(s) })
	add("refusals", "refusals", 0, func() any { return s })
	add("log", "log", 0, func() any { return newestEntries(s) })
	add("health", "health", 0, func() any { return newHealth(s) })
	d.layout = layoutOf(d.parts)
}

// drawAccount renders the parts of an account.
func (p *Page) drawAccount(add func(name, id string, pause time.Duration, data func() any), i int, s *snapshot, account *accountState, v view) {
	add("cooldowns", fmt.Sprintf("cooldowns-%d", i), 0, func() any {
		return &cooldowns{fmt.Sprintf("cooldowns-%d", i), s.At, p.formToken(), account}
	})
	for j, b := range account.Budgets {
		id := fmt.Sprintf("budget-%d-%d", i, j)
		add("budget", id, 0, func() any { return newBudgetRow(id, s, b) })
	}
	var drawn *chart
	chartOf := func() any {
		if drawn == nil {
			drawn = newChart(fmt.Sprintf("chart-%d", i), s, account, v.By)
		}
		return drawn
	}
	pause := chartPause
	if s.Whole == nil || account.Activity == nil || account.Activity.fresh() {
		pause = 0
	}
	add("chart", fmt.Sprintf("chart-%d", i), pause, chartOf)
}

// cooldowns are those of an account.
type cooldowns struct {
	ID   string
	Now  time.Time
	Form string
	*accountState
}

// fresh reports whether the activity was read just now.
func (a *activity) fresh() bool { return time.Since(a.builtAt) < 2*chartPause }

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
	return strings.TrimSpace(b.String())
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

// passRow is a pass and what became of it.
type passRow struct {
	Region, Outcome, Detail   string
	Tick, Started, LastPageAt time.Time
	Steps, Pages, Videos      int
}

// passRows returns the passes with their outcomes: what a newer pass of the region
// leaves behind is unfinished, and else it is stopped, failing or in progress.
func passRows(s *snapshot) any {
	var rows []passRow
	newer := map[string]bool{}
	for i := range s.Passes {
		one := &s.Passes[i]
		row := passRow{Region: one.Region, Tick: one.Tick, Started: one.StartedAt, LastPageAt: one.FetchedAt, Steps: one.Steps, Pages: one.Pages, Videos: one.Videos, Outcome: "unfinished"}
		switch {
		case !one.FinishedAt.IsZero():
			row.Outcome = "complete"
		case newer[one.Region]:
		default:
			row.Outcome, row.Detail = outcomeOf(s, one.Region, one.StartedAt)
		}
		newer[one.Region] = true
		rows = append(rows, row)
	}
	return map[string]any{"Rows": rows, "Now": s.At, "Failures": s.Failures}
}

// outcomeOf returns what keeps the newest pass of a region from its end, and why.
func outcomeOf(s *snapshot, region string, started time.Time) (outcome, detail string) {
	for _, f := range s.Failures {
		if f.Region == region && f.Until.After(s.At) {
			return "failing", f.Name + ": " + f.Reason
		}
	}
	for _, e := range s.Refusals {
		if e.Refusal.Region == region && e.Refusal.At.After(started) && e.Refusal.RetryAt.After(s.At) {
			return "stopped", e.Refusal.Message
		}
	}
	return "unfinished", ""
}

// runRow is a run and its account.
type runRow struct {
	*run
	Account string
}

const shownRuns = 12

// runRows returns the runs that spent last.
func runRows(s *snapshot) any {
	var rows []runRow
	for _, account := range s.Accounts {
		if account.Activity != nil {
			for _, r := range account.Activity.lastRuns() {
				rows = append(rows, runRow{r, account.Name})
			}
		}
	}
	slices.SortStableFunc(rows, func(x, y runRow) int { return y.Last.Compare(x.Last) })
	return map[string]any{"Rows": rows[:min(len(rows), shownRuns)], "Now": s.At, "Accounts": len(s.Accounts), "Reading": s.Whole == nil}
}

// entries are lines of the log.
type entries struct {
	Rows     []*usage.LineReport
	Accounts int
	Reading  bool
	More     bool
	Scanned  int
}

const shownEntries = 50

// newestEntries returns the last lines of the log, newest first.
func newestEntries(s *snapshot) any {
	e := &entries{Accounts: len(s.Accounts), Reading: s.Whole == nil}
	var lines []usage.Line
	for _, account := range s.Accounts {
		if account.Activity != nil {
			e.addLines(&lines, account)
		}
	}
	slices.SortStableFunc(lines, func(x, y usage.Line) int { return y.At.Compare(x.At) })
	for i := range lines[:min(len(lines), shownEntries)] {
		e.Rows = append(e.Rows, usage.NewLineReport(&lines[i]))
	}
	return e
}

func (e *entries) addLines(lines *[]usage.Line, account *accountState) {
	newest := account.Activity.newest
	for _, entry := range newest[max(0, len(newest)-shownEntries):] {
		*lines = append(*lines, usage.Line{Entry: entry, Account: account.Name})
	}
}

// health is the state of the ledger and the journal.
type health struct {
	*snapshot
	Host       string
	Logs       []*usage.LogReport
	Keyed      []usage.KeyReport
	Unrecorded quota.Units
	WholeErr   error
	ReadAt     time.Time
}

func newHealth(s *snapshot) any {
	h := &health{snapshot: s}
	h.Host, _ = os.Hostname()
	if s.State.Unrecorded != nil {
		h.Unrecorded = *s.State.Unrecorded
	}
	if s.Whole != nil {
		h.Logs, h.Keyed, h.WholeErr, h.ReadAt = s.Whole.logs, s.Whole.keyed, s.Whole.err, s.Whole.at.UTC()
	}
	return h
}
