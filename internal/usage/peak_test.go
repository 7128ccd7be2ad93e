package usage_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/quota"
)

// TestADaysPeakIsOfThatDay: the peak of a day was what the day before had
// spent, where that was more.
func TestADaysPeakIsOfThatDay(t *testing.T) {
	w := newWorld(t, t.TempDir(), inMemory, budget("day", quota.Daily(time.UTC)),
		budget("month", quota.Monthly(time.UTC)))
	defer w.close()
	w.clock.Set(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	w.spend("m", "IN", 500)
	w.clock.Set(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC))
	w.spend("m", "IN", 70)
	w.fill(0)
	for _, name := range []string{"day", "month"} {
		rows, err := w.stores[0].History(t.Context(), &catalog.DayQuery{Budget: &name})
		if err != nil || len(rows) != 2 || rows[0].Peak != 500 || rows[1].Peak != 70 {
			t.Errorf("%+v, %v; want two days of %s with peaks of 500 and 70", rows, err, name)
		}
	}
}
