package ledgertest

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// regressions returns the games that rapid found, each reduced to what failed.
func regressions() []subtest {
	return []subtest{
		{"EstimateWithinABatchAfterAnIdleDay", estimateAfterAnIdleDay},
		{"FloorFreedByANoteOfTheSameBatch", floorFreedByANote},
		{"LargestForcedSpendWithinABatch", largestForcedSpend},
		{"DayAfterTheLargestForcedSpend", dayAfterTheLargestForcedSpend},
	}
}

// estimateAfterAnIdleDay: a counter that had been idle for a day lost count of
// the requests before the last one of a batch.
func estimateAfterAnIdleDay(w *world) {
	each := charge("each", 11, quota.Counter(time.Minute))
	w.history = 0
	w.spend(1, each)
	w.clock.Add(24 * time.Hour)
	answers := w.batch(request("search", 1, each), request("search", 3, each), request("search", 8, each))
	if answers[0].Err != nil || answers[1].Err != nil {
		w.Fatalf("%v, %v; want two grants", answers[0].Err, answers[1].Err)
	}
	w.refused(answers[2], "each", time.Minute+15*time.Second, 7) // 4 * 45/60 leave 8
}

// floorFreedByANote: a note of another region uses that region's floor, so a
// call of the same batch waits for one entry to leave, and not for both.
func floorFreedByANote(w *world) {
	day, kept := charge("day", 2, quota.Sliding(24*time.Hour)), floors{"BR": 1}
	note := func(region string) quota.Request {
		r := entered(request("search", 1), quota.EntryNote, 0)
		r.Caller.Region = region
		return r
	}
	answers := w.batch(note("US"), note("BR"), kept.from("US", 1, day))
	w.refused(answers[2], "day", 24*time.Hour, 0)
}

// largestForcedSpend: a call was granted behind a forced one of the same batch
// whose units fill more than the budget.
func largestForcedSpend(w *world) {
	day := charge("day", 3633, quota.Sliding(24*time.Hour))
	answers := w.batch(forced(request("search", quota.MaxUnits, day)), request("videos", 7, day))
	w.refused(answers[1], "day", 24*time.Hour, 0)
}

// dayAfterTheLargestForcedSpend: behind such a call a calendar window was said
// to be free a day late. The day is one of 23 hours.
func dayAfterTheLargestForcedSpend(w *world) {
	w.clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
	calendar := charge("calendar", 2_551_585, quota.Daily(zone(w, "America/Los_Angeles")))
	answers := w.batch(forced(request("search", quota.MaxUnits, calendar)), request("search", 7, calendar))
	opens := time.Date(2027, 3, 14, 8, 0, 30, 0, time.UTC)
	w.refused(answers[1], "calendar", opens.Sub(w.clock.Now()), 0)
}
