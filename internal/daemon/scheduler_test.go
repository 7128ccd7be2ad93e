package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// A bubble's clock begins at 2000-01-01T00:00:00Z; times below are offsets
// from there.
var midnight = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func at(t time.Time) string { return t.Sub(midnight).Round(time.Millisecond).String() }

// bench runs a scheduler in a bubble and writes down when passes begin.
type bench struct {
	*daemon.Scheduler
	stop   context.CancelFunc
	served chan struct{}

	mu    sync.Mutex
	began map[string][]string
	all   []string
	log   strings.Builder
}

// run is a pass that ends with what it returns. It may wait.
type run func(ctx context.Context, region string, number int) jobs.RegionReport

func complete(_ context.Context, _ string, _ int) jobs.RegionReport {
	return jobs.RegionReport{Outcome: jobs.Complete, Calls: 1, Units: 1}
}

func serve(t *testing.T, o *daemon.SchedulerOptions, w *daemon.Work) *bench {
	t.Helper()
	b := &bench{served: make(chan struct{}), began: map[string][]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	b.stop = cancel
	b.Scheduler = daemon.NewScheduler(o)
	run := w.Run
	w.Run = nil
	go func() {
		defer close(b.served)
		w.Run = b.record(run)
		w.Log = slog.New(slog.NewTextHandler(writer{b}, &slog.HandlerOptions{ReplaceAttr: noTime}))
		b.Serve(ctx, w)
	}()
	t.Cleanup(func() { cancel(); <-b.served })
	return b
}

type writer struct{ *bench }

func (w writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func (b *bench) record(run func(context.Context, jobs.Region) jobs.RegionReport) func(context.Context,
	jobs.Region) jobs.RegionReport {
	return func(ctx context.Context, region jobs.Region) jobs.RegionReport {
		b.mu.Lock()
		b.began[region.Name] = append(b.began[region.Name], at(time.Now()))
		b.all = append(b.all, region.Name)
		b.mu.Unlock()
		return run(ctx, region)
	}
}

// work does run for regions of one schedule.
func work(t *testing.T, run run, spec string, names ...string) *daemon.Work {
	t.Helper()
	schedule, err := jobs.ParseSchedule(spec, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	count := map[string]int{}
	w := &daemon.Work{Run: func(ctx context.Context, region jobs.Region) jobs.RegionReport {
		mu.Lock()
		number := count[region.Name]
		count[region.Name]++
		mu.Unlock()
		report := run(ctx, region.Name, number)
		report.Region = region.Name
		return report
	}}
	for _, name := range names {
		w.Regions = append(w.Regions, jobs.Region{Name: name, Schedule: schedule})
	}
	return w
}

// passes lets time pass, and returns when a region's passes began.
func (b *bench) passes(d time.Duration, region string) string {
	pause(d)
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.began[region], " ")
}

// pause lets the bubble's time pass, and all that it leads to happen.
func pause(d time.Duration) { <-time.After(d); synctest.Wait() }

// takes is a pass's time.
func takes(d time.Duration) { <-time.After(d) }

func (b *bench) logged(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range want {
		if !strings.Contains(b.log.String(), line) {
			t.Errorf("%q is not logged:\n%s", line, b.log.String())
		}
	}
}

// TestPassesStartAtTheirTicks: one at the start for the current tick, then one
// a tick, never more for the ticks before.
func TestPassesStartAtTheirTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pause(90 * time.Minute) // ticks have gone by before
		b := serve(t, nil, work(t, complete, "15 * * * *", "US"))
		if got, want := b.passes(3*time.Hour, "US"), "1h30m0s 2h15m0s 3h15m0s 4h15m0s"; got != want {
			t.Errorf("passes began at %s; want %s", got, want)
		}
		b.logged(t,
			`level=INFO msg=pass region=US tick=2000-01-01T01:15:00Z outcome=complete calls=1 units=1 videos=0 `+
				`took=0s next=2000-01-01T02:15:00Z`)
	})
}

// TestTheEndOfAPassSaysWhenItIsTriedAgain gives how passes of 00:00 end, and
// when the next ones begin.
func TestTheEndOfAPassSaysWhenItIsTriedAgain(t *testing.T) {
	refusedUntil := func(d time.Duration) jobs.RegionReport {
		at := midnight.Add(d)
		err := &quota.RefusedError{Budget: "all", Method: "videos.list", Reason: quota.ReasonSpent, Limit: 9, Needed: 1,
			RetryAt: at, RetryAfter: d}
		return jobs.RegionReport{Outcome: jobs.Stopped, RetryAt: at, Err: err}
	}
	failed := func(calls int, err error) jobs.RegionReport {
		return jobs.RegionReport{Outcome: jobs.Failed, Calls: calls, Err: err}
	}
	upstream := func(d time.Duration) jobs.RegionReport {
		at := midnight.Add(d)
		return jobs.RegionReport{Outcome: jobs.Stopped, Calls: 2, RetryAt: at,
			Err: &jobs.UpstreamError{RetryAt: at, Err: errors.New("429")}}
	}
	fine := jobs.RegionReport{Outcome: jobs.Complete}
	locked := jobs.RegionReport{Outcome: jobs.Skipped, Err: &catalog.LockedError{Name: "region US", PID: 7, Host: "h",
		Since: midnight}}
	down := failed(0, quota.ErrLedgerDown)
	for name, c := range map[string]struct {
		ends  []jobs.RegionReport // the last one over and over
		spec  string
		until time.Duration
		want  string
		log   string
	}{
		"a refusal is retried at its time": {[]jobs.RegionReport{refusedUntil(5 * time.Minute),
			refusedUntil(7*time.Minute + 500*time.Millisecond), fine}, "@hourly", 119 * time.Minute,
			"0s 5m0s 7m0.5s 1h0m0s",
			`msg="pass does not start" region=US tick=2000-01-01T00:00:00Z outcome=stopped calls=0 units=0 videos=0 ` +
				`took=0s reason="all has 0 of 9 units left, videos.list needs 1; try again at 2000-01-01T00:05:00Z ` +
				`(in 5m)" retry_at=2000-01-01T00:05:00Z next=2000-01-01T01:00:00Z`},
		"one beyond the next tick is asked again then": {[]jobs.RegionReport{refusedUntil(100 * time.Minute),
			refusedUntil(100 * time.Minute), fine}, "@hourly", 119 * time.Minute,
			"0s 1h0m0s 1h40m0s", `retry_at=2000-01-01T01:40:00Z next=2000-01-01T01:00:00Z`},
		"one for now is not a busy loop": {[]jobs.RegionReport{refusedUntil(0), refusedUntil(0), fine}, "@hourly",
			59 * time.Minute, "0s 1s 2s", ""},
		"a ledger that is down is asked on": {[]jobs.RegionReport{down, down, down, down, down, down, down, down,
			down, fine}, "@hourly", 59 * time.Minute, "0s 10s 30s 1m10s 2m30s 5m10s 10m30s 20m30s 30m30s 40m30s",
			"level=ERROR"},
		"a failure that costs stops": {[]jobs.RegionReport{failed(3, errors.New("500"))}, "@hourly",
			119 * time.Minute, "0s 1m0s 5m0s 21m0s 1h0m0s 1h1m0s 1h5m0s 1h21m0s", ""},
		"a ledger that went down in between": {[]jobs.RegionReport{failed(2, quota.ErrLedgerDown)}, "@hourly",
			5 * time.Minute, "0s 10s 30s 1m10s 2m30s", ""},
		"a ledger that was busy in between": {[]jobs.RegionReport{{Outcome: jobs.Stopped, Calls: 2,
			Err: quota.ErrLedgerBusy}}, "@hourly", 5 * time.Minute, "0s 10s 30s 1m10s 2m30s", ""},
		"a quota of 0": {[]jobs.RegionReport{failed(1,
			&jobs.NoQuotaError{Err: errors.New("429")})}, "@hourly", 119 * time.Minute, "0s 1h0m0s", ""},
		"so does an upstream that refuses": {[]jobs.RegionReport{upstream(10 * time.Minute)}, "@hourly",
			59 * time.Minute, "0s 10m0s 14m0s 30m0s", ""},
		"another process has the region": {[]jobs.RegionReport{locked, fine}, "@hourly", 59 * time.Minute,
			"0s 10s", "already running: pid 7 on h"},
		"done is done": {[]jobs.RegionReport{{Outcome: jobs.Skipped,
			Err: errors.New("done 00:00")}}, "@hourly", 59 * time.Minute, "0s", ""},
		"its next tick came: nothing is lost": {[]jobs.RegionReport{{Outcome: jobs.Stopped, Err: jobs.ErrNextTick},
			fine}, "@every 10m", 19 * time.Minute, "0s 10m0s", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := serve(t, nil, work(t,
					func(_ context.Context, _ string, n int) jobs.RegionReport { return c.ends[min(n, len(c.ends)-1)] },
					c.spec, "US"))
				if got := b.passes(c.until, "US"); got != c.want {
					t.Errorf("passes began at %s; want %s", got, c.want)
				}
				b.logged(t, c.log)
			})
		})
	}
}

// TestPassesOfAnotherHostAreOneLineAMinute: a host beside one that has the
// passes of 20 regions logged 20 lines every few seconds. It logs one a minute,
// with how many there were.
func TestPassesOfAnotherHostAreOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claimed := jobs.RegionReport{Outcome: jobs.Skipped, Err: &jobs.ElsewhereError{
			Claim: &engine.ClaimedError{Until: midnight.Add(time.Hour), After: 15 * time.Second}}}
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("R%d", i))
		}
		b := serve(t, nil, work(t, func(context.Context, string, int) jobs.RegionReport { return claimed }, "@hourly",
			names...))
		b.passes(150*time.Second, "R0")
		b.logged(t, `msg="passes of other hosts" passes=1 `, `msg="passes of other hosts" passes=80 `)
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := strings.Count(b.log.String(), "\n"); n != 3 {
			t.Errorf("%d lines in two and a half minutes; want 3:\n%s", n, b.log.String())
		}
	})
}

// TestOneRegionNeverOverlaps has passes that take longer than their period. A
// tick waits until the last pass ends, unless a later tick replaces it.
func TestOneRegionNeverOverlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under := map[string]int{}
		b := serve(t, nil, work(t, func(_ context.Context, region string, n int) jobs.RegionReport {
			mu.Lock()
			under[region]++
			if under[region] > 1 {
				t.Errorf("%d passes of %s at once", under[region], region)
			}
			mu.Unlock()
			if region == "US" && n == 0 {
				takes(25 * time.Minute)
			}
			mu.Lock()
			under[region]--
			mu.Unlock()
			return jobs.RegionReport{Outcome: jobs.Complete}
		}, "@every 10m", "US", "GB"))
		if got, want := b.passes(31*time.Minute, "US"), "0s 25m0s 30m0s"; got != want {
			t.Errorf("passes of US began at %s; want %s", got, want)
		}
		if got, want := b.passes(0, "GB"), "0s 10m0s 20m0s 30m0s"; got != want {
			t.Errorf("passes of GB began at %s; want %s", got, want)
		}
		b.logged(t,
			`level=WARN msg="tick waits: the region's last pass still runs" region=US tick=2000-01-01T00:10:00Z `+
				`running=2000-01-01T00:00:00Z`,
			`level=WARN msg="tick skipped: the region's last pass still runs" region=US tick=2000-01-01T00:10:00Z`)
	})
}

// TestPassesStartInTheGivenOrder: passes start in the given order, at most as
// many at once as allowed.
func TestPassesStartInTheGivenOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work(t, func(context.Context, string, int) jobs.RegionReport {
			takes(time.Minute)
			return jobs.RegionReport{Outcome: jobs.Complete}
		}, "@hourly", "US", "GB", "DE", "FR", "IN")
		w.Order = func(_ context.Context, names []string) ([]string, error) {
			ordered := slices.Clone(names)
			slices.Reverse(ordered)
			return ordered, nil
		}
		b := serve(t, &daemon.SchedulerOptions{Parallel: 2}, w)
		pause(30 * time.Minute)
		if got, want := strings.Join(b.all, " "), "IN FR DE GB US"; got != want && got != "FR IN DE GB US" &&
			got != "FR IN GB DE US" && got != "IN FR GB DE US" {
			t.Errorf("passes began in the order %s; want %s, two at once", got, want)
		}
		for region, want := range map[string]string{"IN": "0s", "DE": "1m0s", "US": "2m0s"} {
			if got := b.passes(0, region); got != want {
				t.Errorf("the pass of %s began at %s; want %s", region, got, want)
			}
		}
	})
}

// TestStopWaitsForRunningPasses: a stopped scheduler starts no pass, cancels
// the running ones, and returns after the last of them.
func TestStopWaitsForRunningPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work(t, func(ctx context.Context, _ string, _ int) jobs.RegionReport {
			<-ctx.Done()
			takes(2 * time.Second) // the page in flight
			return jobs.RegionReport{Outcome: jobs.Stopped, Err: context.Cause(ctx)}
		}, "@hourly", "US", "GB")
		b := serve(t, &daemon.SchedulerOptions{Parallel: 1}, w)
		pause(time.Minute)
		if !b.Alive(t.Context()) {
			t.Error("the scheduler is not alive")
		}
		b.stop()
		<-b.served
		if took := at(time.Now()); took != "1m2s" {
			t.Errorf("it came back at %s; want when the page had come", took)
		}
		if got := b.passes(time.Hour, "GB"); got != "" || b.Alive(t.Context()) {
			t.Errorf("passes of GB began at %s; want none after the end", got)
		}
		b.logged(t, "outcome=stopped", `reason="context canceled"`)
	})
}

// TestTicksFollowClocksThatChange schedules the two days of 2000 on which New
// York's clock changes: one has no 02:30, the other has 01:30 twice.
func TestTicksFollowClocksThatChange(t *testing.T) {
	ny, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ spec, from, want string }{
		{"30 2 * * *", "2000-04-01T00:00:00-05:00", "[01T02:30 03T02:30]"},
		{"30 1 * * *", "2000-10-28T00:00:00-04:00", "[28T01:30 29T01:30 29T01:30 30T01:30]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			from, err := time.Parse(time.RFC3339, c.from)
			if err != nil {
				t.Fatal(err)
			}
			pause(time.Until(from))
			w := work(t, complete, c.spec, "US")
			if w.Regions[0].Schedule, err = jobs.ParseSchedule(c.spec, ny); err != nil {
				t.Fatal(err)
			}
			b := serve(t, nil, w)
			pause(72 * time.Hour)
			var got []string
			for _, began := range b.began["US"][1:] { // the first is at the start
				d, _ := time.ParseDuration(began)
				got = append(got, midnight.Add(d).In(ny).Format("02T15:04"))
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%s: passes began at %s; want %s", c.spec, got, c.want)
			}
		})
	}
}
