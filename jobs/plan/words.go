package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/duration"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// words is a schedule in regions.yaml's own words, as far as they can be changed:
// the minutes and hours of a cron line, or the delay of @every.
type words struct {
	minutes []int
	hours   []int
	fields  []string // five, of a cron line
	every   time.Duration
}

var descriptors = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
	"@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}

// read reads a schedule that was parsed before.
func read(spec string) (w words) {
	if delay, ok := strings.CutPrefix(spec, "@every "); ok {
		w.every, _ = duration.Parse(strings.TrimSpace(delay))
		return w
	}
	if line, ok := descriptors[spec]; ok {
		spec = line
	}
	w.fields = strings.Fields(spec)
	if len(w.fields) != 5 {
		return words{}
	}
	// What its minutes and hours are, the line says best itself, on a day that has all.
	schedule, err := jobs.ParseSchedule(w.fields[0]+" "+w.fields[1]+" * * *", time.UTC)
	if err != nil {
		return words{}
	}
	day := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for t := schedule.Next(day.Add(-1)); t.Before(day.AddDate(0, 0, 1)); t = schedule.Next(t) {
		w.minutes, w.hours = append(w.minutes, t.Minute()), append(w.hours, t.Hour())
	}
	slices.Sort(w.minutes)
	slices.Sort(w.hours)
	w.minutes, w.hours = slices.Compact(w.minutes), slices.Compact(w.hours)
	return w
}

// line returns a cron line with other minutes and hours.
func (w words) line(minutes, hours string) string {
	return strings.Join(append([]string{minutes, hours}, w.fields[2:]...), " ")
}

// lighter returns schedules that come less and less often, each less than the
// one before: fewer minutes of an hour, then fewer hours of a day, then three days of a week, then one.
func lighter(spec string) []string {
	w := read(spec)
	if w.every > 0 {
		return lighterEvery(w.every)
	}
	if w.fields == nil {
		return nil
	}
	var all []string
	for _, minutes := range thinner(w.minutes, 60) {
		all = append(all, w.line(inWords(minutes, 60), w.fields[1]))
	}
	minute := strconv.Itoa(w.minutes[0])
	for _, hours := range thinner(w.hours, 24) {
		all = append(all, w.line(minute, inWords(hours, 24)))
	}
	if w.fields[2] == "*" && w.fields[3] == "*" && w.fields[4] == "*" {
		hour := strconv.Itoa(w.hours[0])
		all = append(all, minute+" "+hour+" * * 1,3,5", minute+" "+hour+" * * 1")
	}
	return all
}

func lighterEvery(every time.Duration) []string {
	var all []string
	for _, minutes := range []int{1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 2880, 4320, 10080} {
		if delay := time.Duration(minutes) * time.Minute; delay > every {
			all = append(all, "@every "+quota.Human(delay))
		}
	}
	return all
}

// thinner returns fewer and fewer of some places of a cycle, down to one. Places
// that are evenly spread over the whole cycle stay so, the first at the same place
// or, modulo what is between them, before.
func thinner(places []int, cycle int) [][]int {
	var all [][]int
	if even(places, cycle) {
		for between := cycle/len(places) + 1; between <= cycle; between++ {
			if cycle%between == 0 {
				all = append(all, spread(places[0]%between, between, cycle))
			}
		}
		return all
	}
	for _, each := range []int{2, 3, 4, 6, 8, 12, 24, 60} {
		var fewer []int
		for i := 0; i < len(places); i += each {
			fewer = append(fewer, places[i])
		}
		if last := len(all); last == 0 && len(fewer) < len(places) || last > 0 && len(fewer) < len(all[last-1]) {
			all = append(all, fewer)
		}
	}
	return all
}

// even reports whether places are evenly spread over a whole cycle.
func even(places []int, cycle int) bool {
	return cycle%len(places) == 0 && slices.Equal(places, spread(places[0], cycle/len(places), cycle))
}

func spread(first, between, cycle int) []int {
	var places []int
	for place := first; place < cycle; place += between {
		places = append(places, place)
	}
	return places
}

// inWords writes places of a cycle as a field of a cron line.
func inWords(places []int, cycle int) string {
	switch between := cycle / len(places); {
	case len(places) == 1:
		return strconv.Itoa(places[0])
	case !even(places, cycle):
		var list []string
		for _, place := range places {
			list = append(list, strconv.Itoa(place))
		}
		return strings.Join(list, ",")
	case between == 1:
		return "*"
	case places[0] == 0:
		return fmt.Sprintf("*/%d", between)
	default:
		return fmt.Sprintf("%d-%d/%d", places[0], cycle-1, between)
	}
}

// shifted returns the same schedule at other minutes: those of lines that come
// at one minute of the hour, or at minutes evenly spread over it.
func shifted(spec string) []string {
	w := read(spec)
	if w.fields == nil || !even(w.minutes, 60) {
		return nil
	}
	between := 60 / len(w.minutes)
	var all []string
	for by := 1; by < between; by++ {
		all = append(all, w.line(inWords(spread((w.minutes[0]+by)%between, between, 60), 60), w.fields[1]))
	}
	return all
}
