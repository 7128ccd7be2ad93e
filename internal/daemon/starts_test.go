package daemon

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/jobs"
)

// TestEachTickStartsOnceDespiteJitter: each tick has one start, from any time
// asked. It is late by less than the jitter and half a period, and differs
// between regions.
func TestEachTickStartsOnceDespiteJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule, err := jobs.ParseSchedule(rapid.SampledFrom([]string{"* * * * *", "7 */6 * * *", "0 9 * * 1-5",
			"@every 90s"}).Draw(t, "spec"), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		s := jitteredSchedule{jobs.Region{Name: rapid.SampledFrom([]string{"US", "IN"}).Draw(t, "region"),
			Schedule: schedule},
			time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "jitter"))}
		now := time.UnixMilli(rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000).Draw(t, "now"))
		start := s.Next(now)
		tick := schedule.Tick(start)
		if late := start.Sub(tick); !start.After(now) || late != 0 && late >= s.jitter ||
			late > schedule.Next(tick).Sub(tick)/2 {
			t.Fatalf("after %s comes %s, of the tick at %s", now, start, tick)
		}
		if again := s.Next(start.Add(-1)); !again.Equal(start) {
			t.Fatalf("before %s comes %s", start, again)
		}
		if after := s.Next(start); !schedule.Tick(after).Equal(schedule.Next(tick)) {
			t.Fatalf("after the start at %s comes %s; want the next tick's", start, after)
		}
	})
	schedule, err := jobs.ParseSchedule("@hourly", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[time.Time]bool{}
	for _, name := range []string{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"} {
		seen[jitteredSchedule{jobs.Region{Name: name, Schedule: schedule},
			5 * time.Minute}.Next(time.Unix(1_800_000_001, 0))] = true
	}
	if len(seen) != 8 {
		t.Errorf("eight regions start at %d times", len(seen))
	}
}

// TestAClockSetBackDelaysNoPass: the clock was ahead by eight hours when serve
// began, as at a start before its host asks the time, and by eight hours no
// pass came.
func TestAClockSetBackDelaysNoPass(t *testing.T) {
	schedule, err := jobs.ParseSchedule("@hourly", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan string, 1)
	run := func(_ context.Context, region jobs.Region) jobs.RegionReport {
		began <- region.Name
		return jobs.RegionReport{Region: region.Name, Outcome: jobs.Complete}
	}
	l := &loop{Scheduler: NewScheduler(nil), ctx: t.Context(), regions: map[string]*regionState{}}
	l.takeOver(&Work{Regions: []jobs.Region{{Name: "US", Schedule: schedule}}, Run: run})
	ahead := time.Now().Add(8 * time.Hour)
	us := l.regions["US"]
	us.due, us.resumeAt = false, ahead
	l.setNextStart(us, ahead)
	l.checked = ahead
	l.startDue()
	if wait := time.Until(us.nextStart); wait > time.Hour {
		t.Errorf("the next pass is in %s; want it within the hour", wait)
	}
	if us.pass == nil {
		t.Fatal("no pass begins; want the present tick's")
	}
	<-began
	l.endPass(<-l.ended)
	l.checked = time.Now().Add(time.Second) // it is corrected by so much every day
	if l.startDue(); us.pass != nil {
		t.Error("a pass begins again after a second")
	}
}
