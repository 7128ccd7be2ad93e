package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/quota"
)

// pageData is what the whole page shows.
type pageData struct {
	*snapshot
	Assets   string
	View     view
	By       []string
	Periods  []int
	Form     string
	Version  string // of the views
	Program  string // the version of ration; may be empty
	SignedIn bool
	HasPlan  bool // at /v1/plan
	Parts    map[string]template.HTML
	Budgets  [][]template.HTML // by account
	Question *question
	Found    *found
}

// show answers GET /.
func (p *Page) show(w http.ResponseWriter, r *http.Request) {
	v := viewOf(r)
	s, parts, version := p.refresh(v)
	if s == nil {
		w.Header().Set("Retry-After", "1")
		p.write(w, http.StatusServiceUnavailable, "message",
			&message{Assets: assets(), Title: "Starting",
				Text: "There is no ledger yet, or ration is ending. Load the page again in a moment."})
		return
	}
	data := &pageData{snapshot: s, Assets: assets(), View: v, By: dimensions(v.Days), Form: p.formToken(),
		Version: version, Program: p.options.Version,
		Periods: periods(), SignedIn: p.options.Token != "", HasPlan: p.options.Regions != nil,
		Parts: map[string]template.HTML{}, Budgets: make([][]template.HTML, len(s.Accounts))}
	for _, one := range parts {
		account, isBudget := strings.CutPrefix(one.ID, "budget-")
		if !isBudget {
			data.Parts[one.ID] = one.HTML
			continue
		}
		number, _, _ := strings.Cut(account, "-")
		i, _ := strconv.Atoi(number)
		data.Budgets[i] = append(data.Budgets[i], one.HTML)
	}
	if c, release := p.options.Client(); c != nil {
		data.Question, data.Found = p.answerQuestion(r, c), p.find(r, c)
		release()
	}
	p.write(w, http.StatusOK, "page", data)
}

// Part returns a part of the page by its name and its number, if it has one.
func (d *pageData) Part(name string, number ...int) template.HTML {
	for _, n := range number {
		name += fmt.Sprintf("-%d", n)
	}
	return d.Parts[name]
}

// beat is how often a stream says that it is alive.
const beat = 15 * time.Second

// maxStreams is the most streams at a time; other pages are as of when they
// were loaded.
const maxStreams = 100

// streamTimeout is how long a browser may take to read an event.
const streamTimeout = 30 * time.Second

// stream answers GET /page/events with the parts that change, as server-sent
// events. The id of an event is the version of what the page shows with it.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	defer p.streams.Add(-1)
	if p.streams.Add(1) > maxStreams {
		http.Error(w, "too many open pages", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	e := &events{ResponseWriter: w, control: http.NewResponseController(w)}
	seen := cmp.Or(r.Header.Get("Last-Event-ID"), r.FormValue("v"))
	v, sent := viewOf(r), time.Time{}
	ticks := time.NewTicker(p.options.Every)
	defer ticks.Stop()
	for {
		s, parts, version := p.refresh(v)
		switch prefix, number, ok := cutVersion(seen); {
		case s == nil:
		case !ok || !strings.HasPrefix(version, prefix+"."):
			_ = e.send("reload", version, struct{}{})
			return
		default:
			since := number
			for i := range parts {
				if parts[i].version > since && e.send("part", "", &parts[i]) != nil {
					return
				}
			}
			if seen != version || time.Since(sent) >= beat || s.Err == nil {
				if e.send("at", version, &liveness{s.At, s.Err == nil}) != nil {
					return
				}
				sent = time.Now()
			}
			seen = version
		}
		select {
		case <-ticks.C:
		case <-p.lifetime.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// liveness says how current an open page is.
type liveness struct {
	At       time.Time `json:"at"`
	IsAnswer bool      `json:"answers"` // the ledger answers
}

// cutVersion returns what a version begins with, and its number.
func cutVersion(version string) (prefix string, number int, ok bool) {
	i := strings.LastIndexByte(version, '.')
	if i < 0 {
		return "", 0, false
	}
	number, err := strconv.Atoi(version[i+1:])
	return version[:i], number, err == nil
}

// events is a stream of server-sent events.
type events struct {
	http.ResponseWriter
	control *http.ResponseController
}

// send sends an event. JSON has no line break, which would end its data.
func (e *events) send(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	_ = e.control.SetWriteDeadline(time.Now().Add(streamTimeout))
	if id != "" {
		id = "id: " + id + "\n"
	}
	if _, err := fmt.Fprintf(e, "event: %s\n%sdata: %s\n\n", name, id, text); err != nil {
		return err
	}
	return e.control.Flush()
}

// lift answers POST /page/lift: it lifts a cooldown, and shows the page again.
func (p *Page) lift(w http.ResponseWriter, r *http.Request) {
	c, release := p.options.Client()
	defer release()
	account, budget := r.PostFormValue("account"), r.PostFormValue("budget")
	key := r.PostFormValue("key")
	isMeant := func(b quota.Budget) bool { return b.Account == account && (budget == "" || b.Name == budget) }
	if c == nil || !slices.ContainsFunc(c.Table().Budgets(), isMeant) {
		p.write(w, http.StatusUnprocessableEntity, "message",
			&message{Assets: assets(), Title: "Nothing was changed",
				Text: "costs.yaml has no such account or budget now. Open the page again."})
		return
	}
	if _, _, err := report.ClearCooldown(r.Context(), c.Guard(), account, budget, key); err != nil {
		p.write(w, http.StatusServiceUnavailable, "message",
			&message{Assets: assets(), Title: "The cooldown may still be in force",
				Text: p.options.Redact(err.Error())})
		return
	}
	p.mu.Lock()
	if p.reader != nil {
		p.reader.readAt = time.Time{} // the next reading sees it
	}
	p.mu.Unlock()
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
