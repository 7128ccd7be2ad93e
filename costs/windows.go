package costs

import (
	"time"

	"github.com/ration-dev/ration/costs/duration"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// windowSpec holds the keys of window: or resets:.
type windowSpec struct {
	zone    *time.Location
	month   bool
	at      time.Duration
	sliding time.Duration
	margin  time.Duration
	kinds   int  // how many of sliding, day and month are present
	timed   bool // at is present
}

// readWindow reads 24h, {sliding: 2s, margin: 20ms}, {day: ZONE} or
// {month: ZONE}. Calendar windows may have the time of day at which they begin;
// their margin is reset_margin.
func readWindow(n strictyaml.Node, into *quota.Window) {
	if n.Kind() == strictyaml.Text {
		if text, _ := n.Verbatim(maxText); strictyaml.Nearest(text, calendarWords) != "" {
			n.Mistake("window is %q, without a zone: write {day: America/Los_Angeles} or {month: UTC}", text)
			return
		}
	}
	if n.Kind() != strictyaml.Map {
		*into = quota.Sliding(readLength(n))
		return
	}
	if n.Has("counter") {
		rejectCounter(n)
		return
	}
	var w windowSpec
	before := n.Mistakes()
	n.Fields(windowFields(&w)...)
	switch {
	case w.kinds == 0 && n.Mistakes() > before: // such as daily in place of day
	case w.kinds != 1:
		n.Mistake("a window is one thing: write 24h, {day: America/Los_Angeles} or {month: UTC}")
	case w.sliding > 0 && w.timed:
		n.Mistake("a sliding window begins at no time of day: remove at, or write {day: America/Los_Angeles, at: \"06:00\"}")
	case w.margin > 0 && w.sliding == 0:
		n.Mistake("margin is for sliding windows: write {sliding: 2s, margin: 20ms}; calendar windows take reset_margin")
	case w.sliding > 0:
		*into = quota.Sliding(w.sliding).WithMargin(w.margin)
	case w.zone != nil:
		*into = w.newWindow()
	}
}

// rejectCounter reports a window {counter: 10m}, of a kind that was removed.
func rejectCounter(n strictyaml.Node) {
	n.Entries(func(key, value strictyaml.Node) {
		if name, _ := key.Verbatim(maxText); name != "counter" {
			return
		}
		length := "10m"
		if value.Kind() == strictyaml.Text {
			if text, _ := value.Verbatim(maxText); isLength(text) {
				length = text
			}
		}
		key.Mistake("there are no counter windows: write window: %s, a sliding window of that length", length)
	})
}

func isLength(text string) bool {
	_, err := duration.Parse(text)
	return err == nil
}

// calendarWords are what a calendar window may be taken for.
var calendarWords = []string{"day", "daily", "month", "monthly"}

// newWindow returns the window of a zone.
func (w *windowSpec) newWindow() quota.Window {
	if w.month {
		return quota.Monthly(w.zone).At(w.at)
	}
	return quota.Daily(w.zone).At(w.at)
}

func windowFields(w *windowSpec) []strictyaml.Field {
	sliding := strictyaml.Field{Key: "sliding", Read: func(n strictyaml.Node) {
		w.kinds++
		w.sliding = readLength(n)
	}}
	margin := strictyaml.Field{Key: "margin", Read: func(n strictyaml.Node) {
		if w.margin = n.Seconds(0, maxMargin); w.margin%time.Microsecond != 0 {
			n.Mistake("a margin is whole microseconds: round it")
			w.margin = 0
		}
	}}
	return append(calendarFields(w), sliding, margin)
}

func calendarFields(w *windowSpec) []strictyaml.Field {
	return []strictyaml.Field{
		{Key: "day", Read: func(n strictyaml.Node) {
			w.kinds++
			w.zone = n.Zone()
		}},
		{Key: "month", Read: func(n strictyaml.Node) {
			w.kinds++
			w.zone, w.month = n.Zone(), true
		}},
		{Key: "at", Read: func(n strictyaml.Node) { w.at, w.timed = readTimeOfDay(n), true }},
	}
}

// readResets reads when the upstream's own day or month ends.
func (d *document) readResets(n strictyaml.Node) {
	var w windowSpec
	before := n.Mistakes()
	n.Fields(calendarFields(&w)...)
	switch {
	case w.kinds == 0 && n.Mistakes() > before: // such as daily in place of day
	case n.Kind() == strictyaml.Map && w.kinds == 0:
		n.Mistake(`missing key "day": write day: America/Los_Angeles`)
	case w.kinds > 1:
		n.Mistake("day and month are both there: write the one at whose end the upstream starts afresh")
	case w.zone != nil:
		d.Resets, d.ResetWindow = w.zone, w.newWindow()
	}
	d.setOrigin(n, "resets")
}

// maxMargin is the bound of package quota.
const maxMargin = time.Hour

func (d *document) readMargin(n strictyaml.Node) {
	d.marginAt = d.placeFor(n)
	margin := n.Seconds(0, maxMargin)
	if margin%time.Microsecond != 0 {
		n.Mistake("a margin is whole microseconds: round it")
		margin = quota.DefaultMargin
	}
	d.ResetMargin = margin
	d.setOrigin(n, "reset_margin")
}

func (d *document) readHistory(n strictyaml.Node) {
	d.History = n.Duration(0, quota.MaxHistory)
	if d.History%time.Microsecond != 0 {
		n.Mistake("a history is whole microseconds: round it")
		d.History = 0
	}
	d.setOrigin(n, "history")
}

// setMargins gives all calendar windows of the document its reset_margin.
func (d *document) setMargins() {
	if d.marginAt == (strictyaml.Node{}) {
		return
	}
	calendars := 0
	set := func(w *quota.Window) {
		if w.Kind() == quota.KindCalendar {
			*w = w.WithMargin(d.ResetMargin)
			calendars++
		}
	}
	set(&d.ResetWindow)
	for i := range d.Budgets {
		set(&d.Budgets[i].Window)
	}
	if calendars == 0 {
		d.marginAt.Mistake("reset_margin without a calendar window: write one, such as window: {day: America/Los_Angeles}, or remove it")
	}
}

// readTimeOfDay reads a time of day in whole minutes, as the time
// since midnight.
func readTimeOfDay(n strictyaml.Node) time.Duration {
	const form = "15:04"
	text := n.Text(anything)
	at, err := time.Parse(form, text)
	if err != nil || len(text) != len(form) {
		if text != "" { // else it is told
			n.Mistake(`%q is not a time of day: write one from 00:00 to 23:59, such as at: "06:00"`, text)
		}
		return 0
	}
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
}

func readLength(n strictyaml.Node) time.Duration {
	d := n.Duration(time.Millisecond, quota.MaxHistory)
	if d%time.Microsecond != 0 {
		n.Mistake("a window is whole microseconds: round it")
	}
	return d
}

// NextReset returns when the upstream of an account resets next after at, with
// the margin of its calendar windows. Of several upstreams it is when the last
// of them does. It is zero if no upstream of the account says.
func (t *Table) NextReset(account string, at time.Time) (next time.Time) {
	for _, u := range t.Upstreams() {
		window := u.ResetWindow
		if window.Kind() != quota.KindCalendar && u.Resets != nil {
			window = quota.Daily(u.Resets)
		}
		if u.Account != account || window.Kind() != quota.KindCalendar {
			continue
		}
		if opens := window.Day(at).Opens; opens.After(next) {
			next = opens
		}
	}
	return next
}
