package usage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/quota"
)

// AddRefusals adds the refusals that processes of this host have counted in a
// state folder, each once. A ledger records only some: the client that is
// refused counts them all, in a file a day. Files of complete days are deleted
// when all of their counts have been added.
func AddRefusals(ctx context.Context, store *catalog.Catalog, state string, budgets []quota.Budget,
	now time.Time) error {
	files, err := client.RefusalFiles(state)
	if err != nil {
		return fmt.Errorf("history: refusals: %w", err)
	}
	windows := map[[2]string]quota.Window{}
	for i := range budgets {
		windows[[2]string{budgets[i].Account, budgets[i].Name}] = budgets[i].Window
	}
	for _, file := range files {
		for more := true; more; {
			err := store.AddRefusals(ctx, file, func(from int64) ([]catalog.DayRefusals, int64, error) {
				counts, next, err := client.ReadRefusals(state, file, from)
				more = next > from
				return byDay(counts, windows), next, err
			})
			if errors.Is(err, fs.ErrNotExist) { // another process has deleted it
				break
			}
			if err != nil {
				return err
			}
		}
		if file < "refusals-"+now.UTC().AddDate(0, 0, -2).Format(time.DateOnly) {
			_ = os.Remove(filepath.Join(state, file)) // the next call tries again
		}
	}
	return nil
}

// byDay returns counts with the days of their budgets.
func byDay(counts []client.RefusalCount, windows map[[2]string]quota.Window) []catalog.DayRefusals {
	var all []catalog.DayRefusals
	for _, c := range counts {
		add := func(budget string, window quota.Window) {
			day := window.Days().Day(c.At).Start
			all = append(all, catalog.DayRefusals{Account: c.Account, Budget: budget, Day: day.UnixMilli(),
				Date:   date(day.UnixMilli(), window.Zone()),
				Method: c.Method, Region: c.Region, Job: c.Job, Lane: c.Lane, Count: c.Count})
		}
		add("", quota.Window{}) // of the whole account
		if c.Budget != "" {
			add(c.Budget, windows[[2]string{c.Account, c.Budget}])
		}
	}
	return all
}
