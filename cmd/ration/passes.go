package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
)

// passReport says which host has the current pass of a region, for JSON.
type passReport struct {
	Region string     `json:"region"`
	Tick   time.Time  `json:"tick"`
	Host   string     `json:"host"`
	PID    int        `json:"pid"`
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"`   // when the claim lapses unless it is renewed; null if the pass is done
	DoneAt *time.Time `json:"done_at"` // null if it is not done

	here bool // it is done in this host's catalogue
}

// readPasses returns which hosts have the current passes.
func (a *app) readPasses(ctx context.Context, c *client.Client, regions []jobs.Region) ([]passReport, error) {
	passes := []passReport{}
	claims, err := jobs.PassClaims(ctx, c.Guard(), c.Table(), regions, a.now())
	if err != nil || len(claims) == 0 {
		return passes, err
	}
	done := a.donePasses(ctx)
	for _, p := range claims {
		passes = append(passes, passReport{p.Region, p.Tick.UTC(), p.Host, p.PID, human.JSONTime(p.Since), human.Instant(p.Until), human.Instant(p.Done), done(p.Region, p.Tick)})
	}
	return passes, nil
}

// donePasses returns what reports whether a pass is done in this host's catalogue.
// Without a catalogue none is.
func (a *app) donePasses(ctx context.Context) func(region string, tick time.Time) bool {
	all := map[string]catalog.Region{}
	if store, err := a.setup().FindCatalog(); err == nil {
		defer store.Close()
		all, _ = store.Regions(ctx)
	}
	return func(region string, tick time.Time) bool {
		r := all[region]
		return r.Tick.Equal(tick) && !r.FinishedAt.Before(tick)
	}
}

// passTable shows the passes that a host has, and those that another one has done.
func (a *app) passTable(r *statusReport) {
	t, shown := a.table("region", "pass", "host", "pid", "since", "until"), false
	for _, p := range r.Passes {
		switch {
		case p.Until != nil:
			t.Row(human.Name(p.Region), a.clock(p.Tick), human.Name(p.Host), p.PID, a.clock(p.Since), a.clock(*p.Until))
		case !p.here:
			t.Row(human.Name(p.Region), a.clock(p.Tick), human.Name(p.Host), p.PID, a.clock(p.Since), "done "+a.clock(*p.DoneAt))
		default:
			continue
		}
		shown = true
	}
	if shown {
		fmt.Fprintln(a.stdout)
		t.Print()
	}
}
