package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
)

// cronSpec is a parsed schedule: the minutes and hours of a cron line, or the
// delay of @every.
type cronSpec struct {
	minutes []int
	hours   []int
	fields  []string // the five fields of a cron line; nil for @every
	every   time.Duration
}

var descriptors = map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *",
	"@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}

// parseSpec parses a schedule that jobs.ParseSchedule has accepted.
func parseSpec(spec string) (w cronSpec) {
	if delay, ok := strings.CutPrefix(spec, "@every "); ok {
		w.every, _ = human.ParseDuration(strings.TrimSpace(delay))
		return w
	}
	if line, ok := descriptors[spec]; ok {
		spec = line
	}
	w.fields = strings.Fields(spec)
	if len(w.fields) != 5 {
		return cronSpec{}
	}
	// The ticks of one day show all minutes and hours.
	schedule, err := jobs.ParseSchedule(w.fields[0]+" "+w.fields[1]+" * * *", time.UTC)
	if err != nil {
		return cronSpec{}
	}
	day := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	for t := schedule.Next(day.Add(-1)); t.Before(day.AddDate(0, 0, 1)); t = schedule.Next(t) {
		w.minutes, w.hours = append(w.minutes, t.Minute()), append(w.hours, t.Hour())
	}
	slices.Sort(w.minutes)
	w.minutes, w.hours = slices.Compact(w.minutes), slices.Compact(w.hours)
	return w
}

// withTimes returns the cron line with other minutes and hours.
func (w cronSpec) withTimes(minutes, hours string) string {
	return strings.Join(append([]string{minutes, hours}, w.fields[2:]...), " ")
}

// lighterSpecs returns schedules with fewer and fewer ticks: fewer minutes of
// an hour, then fewer hours of a day, then three days of a week, then one.
func lighterSpecs(spec string) []string {
	w := parseSpec(spec)
	if w.every > 0 {
		return longerDelays(w.every)
	}
	if w.fields == nil {
		return nil
	}
	var all []string
	for _, minutes := range thinPlaces(w.minutes, 60) {
		all = append(all, w.withTimes(cronField(minutes, 60), w.fields[1]))
	}
	minute := strconv.Itoa(w.minutes[0])
	for _, hours := range thinPlaces(w.hours, 24) {
		all = append(all, w.withTimes(minute, cronField(hours, 24)))
	}
	if w.fields[2] == "*" && w.fields[3] == "*" && w.fields[4] == "*" {
		hour := strconv.Itoa(w.hours[0])
		all = append(all, minute+" "+hour+" * * 1,3,5", minute+" "+hour+" * * 1")
	}
	return all
}

func longerDelays(every time.Duration) []string {
	var all []string
	for _, minutes := range []int{1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440, 2880,
		4320, 10080} {
		if delay := time.Duration(minutes) * time.Minute; delay > every {
			all = append(all, "@every "+human.Duration(delay))
		}
	}
	return all
}

// thinPlaces returns ever smaller subsets of some places of a cycle, such as
// the minutes of an hour, down to a single one. Places that are evenly spread
// stay so; the first of them may move towards the start of the cycle.
func thinPlaces(places []int, cycle int) [][]int {
	var all [][]int
	if isEven(places, cycle) {
		for between := cycle/len(places) + 1; between <= cycle; between++ {
			if cycle%between == 0 {
				all = append(all, everyNth(places[0]%between, between, cycle))
			}
		}
		return all
	}
	shortest := places
	for _, each := range []int{2, 3, 4, 6, 8, 12, 24, 60} {
		var fewer []int
		for i := 0; i < len(places); i += each {
			fewer = append(fewer, places[i])
		}
		if len(fewer) < len(shortest) {
			all = append(all, fewer)
			shortest = fewer
		}
	}
	return all
}

// isEven reports whether places are evenly spread over a whole cycle.
func isEven(places []int, cycle int) bool {
	return cycle%len(places) == 0 && slices.Equal(places, everyNth(places[0], cycle/len(places), cycle))
}

func everyNth(first, between, cycle int) []int {
	var places []int
	for place := first; place < cycle; place += between {
		places = append(places, place)
	}
	return places
}

// cronField formats places of a cycle as a field of a cron line.
func cronField(places []int, cycle int) string {
	switch between := cycle / len(places); {
	case len(places) == 1:
		return strconv.Itoa(places[0])
	case !isEven(places, cycle):
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

// shiftedSpecs returns the same schedule at other minutes, if its minutes are
// evenly spread over the hour.
func shiftedSpecs(spec string) []string {
	w := parseSpec(spec)
	if w.fields == nil || !isEven(w.minutes, 60) {
		return nil
	}
	between := 60 / len(w.minutes)
	var all []string
	for by := 1; by < between; by++ {
		all = append(all, w.withTimes(cronField(everyNth((w.minutes[0]+by)%between, between, 60), 60), w.fields[1]))
	}
	return all
}
