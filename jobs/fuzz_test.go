package jobs_test

import (
	"os"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
)

// FuzzRegions feeds regions.yaml with anything: what is accepted can be run.
func FuzzRegions(f *testing.F) {
	shipped, err := os.ReadFile("../regions.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(shipped))
	f.Add("version: 1\nschedule: '@every 1h'\nfetch: [channels, {search: {queries: [a, b], pages: 2}}]\nregions: " +
		"{US: {}, IN: {fetch: [categories]}}\n")
	f.Add("version: 1\nschedule: '@daily'\nfetch: [{command: [./f, '{region}', '{{'], job: j, calls: {a: 5}, " +
		"timeout: 5}, command: g]\nregions: {emea: {}}\n")
	f.Add("version: 1\nschedule: 0 0 31 4 *\nregions: {US: {schedule: '*/5 * * * *', fetch: [{trending: {pages: " +
		"100}}]}}\n")
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		config, err := jobs.Parse("regions.yaml", []byte(text), nil)
		if err != nil {
			return
		}
		if len(config.Regions) == 0 || config.MaxWait < 0 || config.MaxTotalWait < 0 {
			t.Fatalf("accepted %+v", config)
		}
		for _, region := range config.Regions {
			if region.Name == "" || len(region.Steps) == 0 || jobs.FetchesYouTube([]jobs.Region{region}) &&
				len(region.Name) != 2 {
				t.Fatalf("accepted region %+v", region)
			}
			if next := region.Schedule.Next(now); !next.After(now) {
				t.Fatalf("%s: the tick after %s is %s", region.Schedule, now, next)
			}
			if tick := region.Schedule.Tick(now); tick.After(now) {
				t.Fatalf("%s: the tick at %s is %s", region.Schedule, now, tick)
			}
			for _, step := range region.Steps {
				if step.Kind == jobs.Command &&
					(step.Program.Job == "" || step.Program.Args[0] == "" || step.Program.Timeout <= 0) {
					t.Fatalf("accepted program %+v", step.Program)
				}
				if step.Pages < 1 || step.Pages > 100 || step.Kind == jobs.Search && step.Query == "" {
					t.Fatalf("accepted step %+v", step)
				}
			}
		}
	})
}
