package daemon_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/jobs"
)

// TestReplacedWorkIsClosedAfterItsPasses: running passes end with the old work,
// which is closed then. The new work starts at once, without regions that it
// does not name.
func TestReplacedWorkIsClosedAfterItsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed []string
		slow := work(t, func(ctx context.Context, region string, _ int) jobs.RegionReport {
			if region == "US" {
				takes(10 * time.Minute)
			}
			return jobs.RegionReport{Outcome: jobs.Complete, Err: ctx.Err()}
		}, "@hourly", "US", "GB")
		slow.Close = func() { closed = append(closed, "old "+at(time.Now())) }
		b := serve(t, nil, slow)
		pause(time.Minute)
		fresh := work(t, complete, "30 * * * *", "US", "IN")
		fresh.Run = b.record(fresh.Run)
		fresh.Close = func() { closed = append(closed, "new "+at(time.Now())) }
		b.Replace(fresh)
		pause(99 * time.Minute)
		for region, want := range map[string]string{"US": "0s 10m0s 30m0s 1h30m0s", "GB": "0s",
			"IN": "1m0s 30m0s 1h30m0s"} {
			if got := b.passes(0, region); got != want {
				t.Errorf("passes of %s began at %s; want %s", region, got, want)
			}
		}
		b.stop()
		<-b.served
		b.Replace(&daemon.Work{Close: func() { closed = append(closed, "late") }})
		if got := strings.Join(closed, ", "); got != "old 10m0s, new 1h40m0s, late" {
			t.Errorf("closed: %s; want the old work when its last pass ended, the new one after Stop", got)
		}
	})
}

// TestReplacedWorkWithoutAPassIsClosedAtOnce: no pass will end, to close
// it then.
func TestReplacedWorkWithoutAPassIsClosedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		idle := work(t, complete, "@hourly", "US")
		idle.Close = func() { closed++ }
		b := serve(t, nil, idle)
		pause(time.Minute)
		b.Replace(work(t, complete, "@hourly", "US"))
		if pause(time.Minute); closed != 1 {
			t.Errorf("the old work was closed %d times within a minute; want once", closed)
		}
	})
}
