package plan_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/quota"
)

// TestEachRegionIsDrawnAsItself: a third region of names such as eu.south
// was drawn with dots, as what the ledger holds is.
func TestEachRegionIsDrawnAsItself(t *testing.T) {
	from := at(t, "2026-11-20T00:00:00Z")
	report := play(t, &plan.Input{From: from, To: from.Add(time.Hour),
		Budgets: []quota.Budget{{Account: "my-project", Name: "hour", Limit: 9, Window: quota.Sliding(time.Hour)}},
		Regions: parse(t,
			"schedule: '@hourly'\nfetch: [{command: [x], job: j, calls: {items.list: 1}}]\nregions: {eu.west: {}, "+
				"eu.east: {}, eu.south: {}}\n")})
	var got strings.Builder
	if err := report.Draw(&got, &plan.Picture{}); err != nil {
		t.Fatal(err)
	}
	if want := "e eu.west   u eu.east   s eu.south\n. held by the ledger"; !strings.Contains(got.String(), want) {
		t.Errorf("%q is missing in\n%s", want, got.String())
	}
}

// TestPictureShowsWhatExceedsTheLimit draws two regions on a budget that they
// exceed together, and none of a budget that no step is charged to.
func TestPictureShowsWhatExceedsTheLimit(t *testing.T) {
	from := at(t, "2026-11-20T00:00:00Z")
	report := play(t, &plan.Input{From: from, To: from.Add(6 * time.Hour),
		Regions: parse(t,
			"fetch: [categories]\nregions:\n  US: {schedule: 0 * * * *}\n  UA: {schedule: 0 */3 * * *}\n"),
		Budgets: []quota.Budget{
			{Account: "my-project", Name: "hour", Limit: 1, Window: quota.Sliding(time.Hour)},
			{Account: "my-project", Name: "searches", Limit: 100, Window: quota.Sliding(time.Hour),
				Methods: []string{"search.list"}},
		}})
	var got strings.Builder
	highlight := func(line string) string { return ">" + line }
	if err := report.Draw(&got, &plan.Picture{Width: 32, Year: 2026, Highlight: highlight}); err != nil {
		t.Fatal(err)
	}
	want := `
hour, units in 1h; a row is
0.12, a column 15m
>       |AAAA        AAAA
>       |AAAA        AAAA
>       |AAAA        AAAA
>       |AAAA        AAAA
>       |AAAA        AAAA
>       |AAAA        AAAA
>       |AAAA        AAAA
>       |AAAA        AAAA
     1 |!!!!========!!!!========
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
       |UUUUUUUUUUUUUUUUUUUUUUUU
     0 +------------------------
        |11-20 00:00Z

U US   A UA
. held by the ledger
! over the limit
^ higher than is drawn

`
	if got.String() != want {
		t.Errorf("got:\n%swant:\n%s", got.String(), want)
	}
	gone := errors.New("gone")
	if err := report.Draw(failingWriter{gone}, &plan.Picture{}); !errors.Is(err, gone) {
		t.Errorf("%v; want the writer's error", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
