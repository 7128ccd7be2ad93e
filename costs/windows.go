package costs

import (
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// windowSpec holds the keys of window: or resets:.
type windowSpec struct {
	kinds  []string // the keys that say which kind of window it is
	zone   *time.Location
	window quota.Window // without from, at and margin
	from   strictyaml.Node
	at     *time.Duration
	margin *time.Duration
}

// readWindow reads 24h, {sliding: 2s, margin: 20ms}, {day: ZONE} and other
// windows on the clock, {bucket: {restore: 50/s}} or {in_flight: 2m}. Windows
// on the clock have the margin reset_margin, others that of ArrivalMargin
// unless they say another.
func readWindow(n strictyaml.Node, into *quota.Window) {
	if n.Kind() == strictyaml.Text {
		if text, _ := n.Verbatim(maxText); strictyaml.Nearest(text, calendarWords) != "" {
			n.Mistake("window is %q, without a zone: write {day: America/Los_Angeles}, {week: UTC}, {month: UTC} or "+
				"{hour: UTC}", text)
			return
		}
	}
	if n.Kind() != strictyaml.Map {
		w := quota.Sliding(readLength(n))
		*into = w.WithMargin(w.ArrivalMargin())
		return
	}
	if n.Has("counter") {
		rejectCounter(n)
		return
	}
	var spec windowSpec
	before := n.Mistakes()
	n.Fields(windowFields(&spec)...)
	if n.Mistakes() == before {
		if w, ok := spec.read(n); ok {
			*into = w
		}
	}
}

// read returns the window of the keys that were read.
func (w *windowSpec) read(n strictyaml.Node) (quota.Window, bool) {
	if len(w.kinds) != 1 {
		n.Mistake("a window is one thing: write 24h, {day: America/Los_Angeles}, {month: UTC}, {every: 15m}, " +
			"{bucket: {restore: 50/s}} or {in_flight: 2m}")
		return quota.Window{}, false
	}
	kind := w.kinds[0]
	isDated := slices.Contains([]string{"day", "week", "month"}, kind)
	takesMargin := kind == "sliding" || kind == "bucket"
	switch {
	case w.at != nil && !isDated:
		n.Mistake("only days, weeks and months begin at a time of day: remove at, or write {day: " +
			"America/Los_Angeles, at: \"06:00\"}")
	case w.margin != nil && !takesMargin:
		n.Mistake("margin is for sliding windows and buckets: write {sliding: 2s, margin: 20ms}; windows on the " +
			"clock take reset_margin")
	default:
		return w.begin(kind)
	}
	return quota.Window{}, false
}

// begin reads the day on which a week or a month begins, and returns the
// window that begins there.
func (w *windowSpec) begin(kind string) (window quota.Window, ok bool) {
	window = w.window
	before := w.from.Mistakes()
	switch {
	case w.from == strictyaml.Node{}:
	case kind == "week":
		day := w.from.OneOf("day of the week", weekdays)
		window = quota.Weekly(w.zone, time.Weekday(slices.Index(weekdays, day)))
	case kind == "month":
		window = window.From(int(w.from.Int(1, 28)))
	default:
		w.from.Mistake("from is the day on which a week or a month begins: write {week: UTC, from: sunday} or " +
			"{month: UTC, from: 12}, or remove it")
	}
	if w.at != nil {
		window = window.At(*w.at)
	}
	if margin := window.ArrivalMargin(); w.margin != nil {
		window = window.WithMargin(*w.margin)
	} else if margin > 0 {
		window = window.WithMargin(margin)
	}
	return window, w.from.Mistakes() == before
}

var weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

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
	_, err := human.ParseDuration(text)
	return err == nil
}

// calendarWords are what a calendar window may be taken for.
var calendarWords = []string{"day", "daily", "week", "weekly", "month", "monthly", "hour", "hourly"}

func windowFields(w *windowSpec) []strictyaml.Field {
	kind := func(key string, read func(strictyaml.Node)) strictyaml.Field {
		return strictyaml.Field{Key: key, Read: func(n strictyaml.Node) {
			w.kinds = append(w.kinds, key)
			read(n)
		}}
	}
	return append(calendarFields(w),
		kind("every", func(n strictyaml.Node) { w.window = quota.Every(readStep(n)) }),
		kind("sliding", func(n strictyaml.Node) { w.window = quota.Sliding(readLength(n)) }),
		kind("bucket", func(n strictyaml.Node) { w.window = readBucket(n) }),
		kind("in_flight", func(n strictyaml.Node) { w.window = quota.InFlight(readLease(n)) }),
		strictyaml.Field{Key: "margin", Read: func(n strictyaml.Node) {
			w.margin = new(wholeMicroseconds(n, "a margin", n.Seconds(0, maxMargin)))
		}})
}

// calendarFields returns the keys of windows in a zone.
func calendarFields(w *windowSpec) (fields []strictyaml.Field) {
	for i, key := range []string{"day", "week", "month", "hour"} {
		fields = append(fields, strictyaml.Field{Key: key, Read: func(n strictyaml.Node) {
			w.kinds = append(w.kinds, key)
			if w.zone = n.Zone(); w.zone != nil {
				w.window = []quota.Window{quota.Daily(w.zone), quota.Weekly(w.zone, time.Monday),
					quota.Monthly(w.zone), quota.Hourly(w.zone)}[i]
			}
		}})
	}
	return append(fields,
		strictyaml.Field{Key: "from", Read: func(n strictyaml.Node) { w.from = n }},
		strictyaml.Field{Key: "at", Read: func(n strictyaml.Node) {
			w.at = new(readTimeOfDay(n))
		}})
}

// readStep reads the length of steps on the clock, of which a day has a whole
// number.
func readStep(n strictyaml.Node) time.Duration {
	length := n.Duration(time.Second, 12*time.Hour)
	if length > 0 && (24*time.Hour)%length != 0 {
		n.Mistake("a day has no whole number of steps of %s: write one such as 15m, 1h or 6h", human.Exactly(length))
	}
	return length
}

// readResets reads when the upstream's own day or month ends.
func (d *document) readResets(n strictyaml.Node) {
	var w windowSpec
	before := n.Mistakes()
	n.Fields(calendarFields(&w)...)
	switch {
	case n.Mistakes() > before: // such as daily in place of day
	case len(w.kinds) == 0:
		n.Mistake(`missing key "day": write day: America/Los_Angeles`)
	case len(w.kinds) > 1:
		n.Mistake("%s are both there: write the one at whose end the upstream starts afresh",
			strings.Join(w.kinds, " and "))
	default:
		if window, ok := w.read(n); ok {
			d.Resets, d.ResetWindow = w.zone, window
		}
	}
}

// maxMargin is the bound of package quota.
const maxMargin = time.Hour

func (d *document) readMargin(n strictyaml.Node) {
	d.ResetMargin = wholeMicroseconds(n, "a margin", n.Seconds(0, maxMargin))
}

func (d *document) readHistory(n strictyaml.Node) {
	d.History = wholeMicroseconds(n, "a history", n.Duration(0, quota.MaxHistory))
}

// setMargins gives all calendar windows of the document its reset_margin, or as
// much of it as they can have.
func (d *document) setMargins() {
	if !d.has("reset_margin") {
		return
	}
	calendars := 0
	set := func(w *quota.Window) {
		if w.Kind() == engine.Calendar {
			*w = w.WithMargin(min(d.ResetMargin, w.MaxMargin()))
			calendars++
		}
	}
	set(&d.ResetWindow)
	for _, e := range d.budgets {
		set(&e.Window)
	}
	if calendars == 0 {
		d.at["reset_margin"].Mistake("reset_margin without a calendar window: write one, such as window: {day: " +
			"America/Los_Angeles}, or remove it")
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
	return wholeMicroseconds(n, "a window", n.Duration(time.Millisecond, quota.MaxHistory))
}

// wholeMicroseconds returns a duration that was read, which a ledger can keep.
// It returns 0 after a mistake.
func wholeMicroseconds(n strictyaml.Node, what string, d time.Duration) time.Duration {
	if d%time.Microsecond != 0 {
		n.Mistake("%s is whole microseconds: round it", what)
		return 0
	}
	return d
}

// NextReset returns when the upstream of an account resets next after at, with
// the margin of its calendar windows. Of several upstreams it is when the last
// of them does. It is zero if no upstream of the account says.
func (t *Table) NextReset(account string, at time.Time) (next time.Time) {
	for _, u := range t.upstreamsOf(account) {
		if u.Resets == nil {
			continue
		}
		if opens := u.ResetWindow.Day(at).Opens; opens.After(next) {
			next = opens
		}
	}
	return next
}
