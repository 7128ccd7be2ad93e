package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// runRow is a run: what one process spent of an account.
type runRow struct {
	Name, Account string
	Units, Calls  quota.Units
	Last          time.Time
	Host          string
	jobs, lanes   map[string]bool
	regions       map[string]bool
}

// addRun adds an entry to its run.
func (a *activity) addRun(account string, e *quota.Entry) {
	name := usage.Run(e.ID.Client)
	row := a.runs[name]
	if row == nil {
		row = &runRow{Name: name, Account: account, jobs: map[string]bool{}, lanes: map[string]bool{},
			regions: map[string]bool{}}
		a.runs[name] = row
	}
	row.Units += e.Units
	row.Calls += e.Calls
	row.Last, row.Host = e.At, e.Host
	row.jobs[usage.Spender(e.Kind, e.Caller.Job)] = true
	row.lanes[e.Caller.Lane] = true
	row.regions[e.Caller.Region] = true
}

// Jobs returns the first names of the jobs, sorted, and how many more
// there are.
func (r *runRow) Jobs() string { return firstNames(r.jobs) }

// Lanes is Jobs for the lanes.
func (r *runRow) Lanes() string { return firstNames(r.lanes) }

// Regions is Jobs for the regions.
func (r *runRow) Regions() string { return firstNames(r.regions) }

func firstNames(of map[string]bool) string {
	const most = 3
	var names []string
	for name := range of {
		if name != "" && name != usage.Unattributed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > most+1 {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

const shownRuns = 12

// runRows returns the runs that spent last.
func runRows(s *snapshot) any {
	var rows []*runRow
	for _, account := range s.Accounts {
		for _, row := range account.activity.runs {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(x, y *runRow) int {
		if later := y.Last.Compare(x.Last); later != 0 {
			return later
		}
		return strings.Compare(x.Name, y.Name)
	})
	return map[string]any{"Rows": rows[:min(len(rows), shownRuns)], "Accounts": len(s.Accounts), "Err": s.Err}
}
