package daemon

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"strconv"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// jitteredSchedule is when a region's passes start: its ticks, each delayed by
// a jitter.
type jitteredSchedule struct {
	jobs.Region
	jitter time.Duration
}

// Next returns the first start after t, or zero.
func (s jitteredSchedule) Next(t time.Time) time.Time {
	if tick := s.Schedule.Tick(t); !tick.IsZero() {
		if start := tick.Add(s.delayOf(tick)); start.After(t) {
			return start
		}
	}
	tick := s.Schedule.Next(t)
	if tick.IsZero() {
		return tick
	}
	return tick.Add(s.delayOf(tick))
}

// delayOf returns the jitter of a tick. It is the same in every process, evenly
// distributed over regions and ticks, and less than half of the time to the
// next tick.
func (s jitteredSchedule) delayOf(tick time.Time) time.Duration {
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

// Pauses before a pass is tried again.
const (
	minPause     = time.Second      // after a refusal whose RetryAt is now or past
	firstPause   = 10 * time.Second // after a try that cost nothing; doubled each time,
	longestPause = 10 * time.Minute // up to this
	paidPause    = time.Minute      // after a try that was charged; quadrupled each time,
	maxPaidTries = 3                // up to this many tries per tick
)

// nextTry returns when to resume a pass, or the zero time if the next tick is
// soon enough. A refused pass resumes at its RetryAt, and one that another host
// has claimed when that claim lapses unless it is renewed. A pass that failed
// at no cost, because the ledger is down or busy or another process holds the
// lock, is tried until it works. One that failed and was charged is tried a few
// times only, so that a broken upstream does not use up the quota.
func (r *regionState) nextTry(p *activePass, now time.Time) time.Time {
	report := &p.report
	elsewhere, _ := errors.AsType[*jobs.ElsewhereError](report.Err)
	switch {
	case elsewhere != nil && !elsewhere.Claim.Done:
		return now.Add(max(elsewhere.Claim.After, minPause))
	case report.Outcome == jobs.Complete, errors.Is(report.Err, jobs.ErrNextTick),
		report.Outcome == jobs.Skipped && !errors.Is(report.Err, catalog.ErrLocked):
		r.freeTries, r.paidTries = 0, 0
		return time.Time{}
	case errors.Is(report.Err, jobs.ErrNoQuota):
		return time.Time{}
	case report.Outcome == jobs.Stopped && !p.stoppedUpstream() && !report.RetryAt.IsZero():
		r.freeTries, r.paidTries = 0, 0
		return latest(report.RetryAt, now.Add(minPause))
	case report.Calls == 0, errors.Is(report.Err, quota.ErrLedgerDown), errors.Is(report.Err, quota.ErrLedgerBusy):
		r.freeTries++
		return now.Add(min(firstPause<<min(r.freeTries-1, 10), longestPause))
	}
	r.paidTries++
	if r.paidTries > maxPaidTries {
		return time.Time{}
	}
	return latest(report.RetryAt, now.Add(paidPause<<(2*(r.paidTries-1))))
}

// stoppedUpstream reports whether the upstream itself stopped the pass. Such
// calls are charged.
func (p *activePass) stoppedUpstream() bool {
	_, ok := errors.AsType[*jobs.UpstreamError](p.report.Err)
	return ok
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// isElsewhere reports whether another host had the pass from the start.
func (p *activePass) isElsewhere() bool {
	_, ok := errors.AsType[*jobs.ElsewhereError](p.report.Err)
	return ok && p.report.Calls == 0
}

// elsewherePause is the shortest time between two lines on passes that other
// hosts have.
const elsewherePause = time.Minute

// logElsewhere logs how many passes other hosts had since its last line.
func (l *loop) logElsewhere(p *activePass, now time.Time) {
	if l.elsewhere++; now.Sub(l.elsewhereLogged) < elsewherePause {
		return
	}
	p.work.log().Info("passes of other hosts", "passes", l.elsewhere, "region", p.report.Region, "tick",
		formatTime(p.tick),
		"reason", p.report.Err.Error())
	l.elsewhere, l.elsewhereLogged = 0, now
}

// logResult logs the result of a pass in one line.
func (p *activePass) logResult(again, next time.Time) {
	report := &p.report
	level, message := slog.LevelInfo, "pass"
	isIdle := report.Calls == 0 && report.Started == 0
	switch {
	case report.Outcome == jobs.Failed:
		level = slog.LevelError
	case report.Outcome == jobs.Skipped && again.IsZero():
		level = slog.LevelDebug
	case report.Outcome == jobs.Stopped && isIdle && errors.Is(report.Err, quota.ErrRefused):
		message = "pass does not start"
	}
	if level == slog.LevelInfo && len(report.Waiting) > 0 { // a failure is a problem until it is over
		level = slog.LevelWarn
	}
	calls, units := report.Charges()
	fields := []any{"region", report.Region, "tick", formatTime(p.tick), "outcome", string(report.Outcome), "calls",
		calls,
		"units", units, "videos", report.Videos, "took", time.Since(p.began).Round(time.Millisecond)}
	if report.Err != nil {
		fields = append(fields, "reason", report.Err.Error())
	}
	if !again.IsZero() {
		fields = append(fields, "retry_at", human.JSONTime(again).Format(time.RFC3339Nano))
	}
	if !next.IsZero() {
		fields = append(fields, "next", formatTime(next))
	}
	p.work.log().Log(context.Background(), level, message, fields...)
}
