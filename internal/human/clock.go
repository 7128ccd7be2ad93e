package human

import (
	"strings"
	"time"
)

// TableTime is the layout of times in tables; see Dated.
const TableTime = "01-02 15:04:05Z"

// Dated formats a time by a layout that has month and day, with the year before
// them unless it is this year; the zero time is a dash.
func Dated(t, now time.Time, layout string) string {
	if t.IsZero() {
		return "-"
	}
	if t.Year() != now.In(t.Location()).Year() {
		layout = strings.Replace(layout, "01-02", "2006-01-02", 1)
	}
	return t.Format(layout)
}
