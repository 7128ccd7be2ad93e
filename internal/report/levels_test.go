package report

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestEachCrossingIsReportedOnce reports each crossing once, to any caller, and
// again after the level was left or a new day has begun.
func TestEachCrossingIsReportedOnce(t *testing.T) {
	l := LevelMarks{filepath.Join(t.TempDir(), "levels")}
	sliding, daily := quota.Sliding(24*time.Hour), quota.Daily(time.UTC)
	monday := time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		window quota.Window
		since  time.Time
		used   quota.Units
		want   string // the percentage, or ""
	}{
		{sliding, monday, 59, ""},
		{sliding, monday, 60, "60 %"},
		{sliding, monday.Add(time.Hour), 79, ""}, // a sliding window moves, and is the same
		{sliding, monday, 99, "95 %"},            // over two levels at once
		{sliding, monday, 120, ""},
		{sliding, monday, 94, ""},
		{sliding, monday, 95, "95 %"}, // left, and crossed again
		{sliding, monday, 0, ""},
		{sliding, monday, 80, "80 %"},
		{daily, monday, 80, "80 %"}, // another window of the same name
		{daily, monday, 81, ""},
		{daily, monday.AddDate(0, 0, 1), 81, "80 %"}, // another day
		{daily, monday.AddDate(0, 0, 1), 81, ""},
	} {
		balance := quota.Balance{Budget: quota.Budget{Account: "p", Name: "all", Limit: 100, Window: step.window},
			At: monday, Since: step.since, Used: step.used, NextFree: monday.Add(time.Hour)}
		other := balance
		other.Budget.Name, other.Used = "other", 0
		shadow := balance
		shadow.Budget.Name, shadow.Budget.Shadow, shadow.Used = "shadow", true, 100 // refuses nothing
		reported := strings.Join(l.Crossed([]quota.Balance{other, balance, shadow}), "\n")
		if step.want == "" && reported != "" || !strings.Contains(reported, step.want) ||
			strings.Contains(reported, "\n") {
			t.Errorf("step %d: reported %q; want %q", i, reported, step.want)
		}
	}
	if files, err := os.ReadDir(l.Dir); err != nil || len(files) != 2 {
		t.Errorf("%d files, %v; want those of the two levels that hold", len(files), err)
	}
}

// TestLevelsAreReportedByOne: of many concurrent callers one reports a
// crossing; without a state folder all of them do.
func TestLevelsAreReportedByOne(t *testing.T) {
	balances := []quota.Balance{{Budget: quota.Budget{Account: "p", Name: "a\nb", Limit: 10, Measure: quota.Calls,
		Window: quota.Sliding(time.Hour)}, Used: 8}}
	for dir, want := range map[string]int{filepath.Join(t.TempDir(), "levels"): 1,
		filepath.Join(os.Args[0], "no-folder"): 16} {
		var mu sync.Mutex
		var reported []string
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				lines := LevelMarks{dir}.Crossed(balances)
				mu.Lock()
				defer mu.Unlock()
				reported = append(reported, lines...)
			})
		}
		wg.Wait()
		if len(reported) != want || reported[0] != `"a\nb" has used 80 % of 10 calls (8)` {
			t.Errorf("%s: reported %d times: %q; want %d", dir, len(reported), reported, want)
		}
	}
}
