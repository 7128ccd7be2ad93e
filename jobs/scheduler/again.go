package scheduler

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"strconv"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
)

// starts are when a region's passes start: its ticks, each late by its jitter.
type starts struct {
	jobs.Region
	jitter time.Duration
}

// Next implements cron.Schedule.
func (s starts) Next(t time.Time) time.Time {
	if tick := s.Schedule.Tick(t); !tick.IsZero() {
		if start := tick.Add(s.late(tick)); start.After(t) {
			return start
		}
	}
	tick := s.Schedule.Next(t)
	if tick.IsZero() {
		return tick
	}
	return tick.Add(s.late(tick))
}

// late is a tick's jitter: the same whoever asks, even between regions and
// ticks, and less than half of the time to the next tick.
func (s starts) late(tick time.Time) time.Duration {
	most := s.jitter
	if next := s.Schedule.Next(tick); !next.IsZero() {
		most = min(most, next.Sub(tick)/2)
	}
	if most <= 0 {
		return 0
	}
	sum := fnv.New64a()
	sum.Write(strconv.AppendInt([]byte(s.Name), tick.Unix(), 10))
	return time.Duration(sum.Sum64() % uint64(most)).Truncate(time.Millisecond)
}

// How long to wait before what came to nothing is tried again.
const (
	soonest      = time.Second      // after a refusal whose instant is now
	firstPause   = 10 * time.Second // after what cost nothing; doubled each time,
	longestPause = 10 * time.Minute // up to this
	paidPause    = time.Minute      // after what was charged; four times as long each time,
	paidTries    = 3                // and so often in one tick
)

// again returns when a pass is to be taken up again, and the zero time when
// the next tick is soon enough. What a budget or a cooldown holds goes on when
// the refusal says. What failed without being charged (the ledger is down, another
// process is at it) is tried until it works. What failed and was charged is tried
// again a few times only: a broken upstream does not get to spend the quota.
func (r *region) again(p *pass, now time.Time) time.Time {
	report := &p.report
	switch {
	case report.Outcome == jobs.Complete, errors.Is(report.Err, jobs.ErrNextTick),
		report.Outcome == jobs.Skipped && !errors.Is(report.Err, catalog.ErrLocked):
		r.free, r.paid = 0, 0
		return time.Time{}
	case errors.Is(report.Err, jobs.ErrNoQuota):
		return time.Time{}
	case report.Outcome == jobs.Stopped && !p.upstream() && !report.RetryAt.IsZero():
		r.free, r.paid = 0, 0
		return later(report.RetryAt, now.Add(soonest))
	case report.Calls == 0, errors.Is(report.Err, quota.ErrLedgerDown):
		r.free++
		return now.Add(min(firstPause<<min(r.free-1, 10), longestPause))
	}
	r.paid++
	if r.paid > paidTries {
		return time.Time{}
	}
	return later(report.RetryAt, now.Add(paidPause<<(2*(r.paid-1))))
}

// upstream reports whether the upstream itself refused: its calls are charged.
func (p *pass) upstream() bool {
	_, ok := errors.AsType[*jobs.UpstreamError](p.report.Err)
	return ok
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tell logs what a pass came to, in one line.
func (p *pass) tell(again, next time.Time) {
	report := &p.report
	level, message := slog.LevelInfo, "pass"
	switch {
	case report.Outcome == jobs.Failed:
		level = slog.LevelError
	case report.Outcome == jobs.Skipped && !errors.Is(report.Err, catalog.ErrLocked):
		level = slog.LevelDebug
	case report.Outcome == jobs.Stopped && report.Calls == 0 && errors.Is(report.Err, quota.ErrRefused):
		message = "pass does not start"
	}
	fields := []any{"region", report.Region, "tick", stamp(p.tick), "outcome", string(report.Outcome), "calls", report.Calls,
		"units", int64(report.Units), "videos", report.Videos, "took", time.Since(p.began).Round(time.Millisecond)}
	if report.Err != nil {
		fields = append(fields, "reason", report.Err.Error())
	}
	if !again.IsZero() {
		fields = append(fields, "retry_at", quota.Stamp(again))
	}
	if !next.IsZero() {
		fields = append(fields, "next", stamp(next))
	}
	p.work.log().Log(context.Background(), level, message, fields...)
}
