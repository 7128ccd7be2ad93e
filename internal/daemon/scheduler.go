// The scheduler runs each region's pass at the ticks of its schedule,
// one pass of a region at a time, and resumes passes that a budget or a
// fault stopped.

package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/ration-dev/ration/jobs"
)

// Work tells a Scheduler what to run.
type Work struct {
	Regions []jobs.Region

	// Run runs a region's current pass as far as the budgets allow. When ctx
	// is cancelled it must return soon. It is called concurrently for
	// different regions.
	Run func(ctx context.Context, region jobs.Region) jobs.RegionReport

	// Order returns the names of due regions in the order in which to start
	// them. nil means the order of Regions.
	Order func(ctx context.Context, names []string) ([]string, error)

	// Close is called once when the work is replaced or the scheduler stopped,
	// and its last pass has ended. May be nil.
	Close func()

	// Log gets a line for each pass; nil means slog.Default.
	Log *slog.Logger

	running int // number of running passes; owned by the loop
}

func (w *Work) log() *slog.Logger {
	if w.Log == nil {
		return slog.Default()
	}
	return w.Log
}

// SchedulerOptions are options for New. A nil *Options is the default.
type SchedulerOptions struct {
	Jitter   time.Duration // starts are delayed by less than this and less than half the time to the next tick
	Parallel int           // most passes at once; 0 means jobs.DefaultParallel
}

// Scheduler runs passes on schedule. Its methods are safe for concurrent use.
type Scheduler struct {
	options SchedulerOptions
	replace chan *Work
	ended   chan *activePass
	ping    chan struct{}
	stopped chan struct{}
}

// NewScheduler returns a Scheduler. It does nothing until Serve is called.
func NewScheduler(o *SchedulerOptions) *Scheduler {
	s := &Scheduler{replace: make(chan *Work), ended: make(chan *activePass), ping: make(chan struct{}),
		stopped: make(chan struct{})}
	if o != nil {
		s.options = *o
	}
	s.options.Parallel = cmp.Or(s.options.Parallel, jobs.DefaultParallel)
	return s
}

// Serve runs w until ctx is cancelled, and returns when all running passes have
// ended. It starts with the current tick of every region; older ticks are
// skipped. Call it once.
func (s *Scheduler) Serve(ctx context.Context, w *Work) {
	defer close(s.stopped)
	l := &loop{Scheduler: s, ctx: ctx, regions: map[string]*regionState{}}
	l.takeOver(w)
	for {
		l.startDue()
		timer := time.NewTimer(l.sleepTime())
		select {
		case w := <-s.replace:
			l.takeOver(w)
		case p := <-s.ended:
			l.endPass(p)
		case s.ping <- struct{}{}:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			l.waitForPasses()
			return
		}
		timer.Stop()
	}
}

// Replace replaces the work. Running passes continue with the old one. As in
// Serve, the current tick of every region is resumed at once, since a budget
// may have grown. After Serve has returned, Replace only closes w.
func (s *Scheduler) Replace(w *Work) {
	select {
	case s.replace <- w:
	case <-s.stopped:
		w.close()
	}
}

// Alive reports whether the scheduler's loop is running. It waits for the loop
// to respond, until ctx is cancelled.
func (s *Scheduler) Alive(ctx context.Context) bool {
	select {
	case <-s.ping:
		return true
	case <-s.stopped:
	case <-ctx.Done():
	}
	return false
}

// clockCheck is how often the wall clock is checked. Timers stop while the
// host is suspended and ignore changes of the clock; ticks are late by no more
// than this. A clock that is set back by more makes all regions due.
const clockCheck = time.Minute

// loop is the state of a running scheduler, owned by one goroutine.
type loop struct {
	*Scheduler
	ctx     context.Context
	work    *Work
	regions map[string]*regionState
	running int       // number of running passes, of old work too
	checked time.Time // the latest time that the wall clock showed

	elsewhere       int       // passes that other hosts had, since elsewhereLogged
	elsewhereLogged time.Time // when they were logged last
}

// regionState is the state of a region's passes.
type regionState struct {
	jobs.Region
	pass        *activePass // running; nil if none is
	tick        time.Time   // of the last pass begun
	nextStart   time.Time   // of the next tick, with its jitter; zero means never
	due         bool        // to be started when a slot is free
	resumeAt    time.Time   // when the pass resumes; zero means with the next tick
	waitingTick time.Time   // a tick that came while an older pass was running
	freeTries   int         // failed tries of this tick that were not charged
	paidTries   int         // and those that were
}

// activePass is one run of a region's pass.
type activePass struct {
	*regionState
	work   *Work
	tick   time.Time
	began  time.Time
	report jobs.RegionReport
}

// takeOver replaces the work, and makes all regions due.
func (l *loop) takeOver(w *Work) {
	old := l.work
	l.work = w
	regions := make(map[string]*regionState, len(w.Regions))
	for _, r := range w.Regions {
		known := l.regions[r.Name]
		if known == nil {
			known = &regionState{}
		}
		known.Region = r
		regions[r.Name] = known
	}
	l.regions = regions
	l.resumeAll()
	if old != nil && old.running == 0 {
		old.close()
	}
}

// resumeAll makes all regions due.
func (l *loop) resumeAll() {
	l.checked = time.Now().Round(0)
	for _, r := range l.regions {
		r.due = true
		r.resumeAt = time.Time{}
		r.freeTries, r.paidTries = 0, 0
		l.setNextStart(r, l.checked)
	}
}

// checkClock resumes all regions if the wall clock was set back: what they wait
// for may be as far away as the clock was ahead.
func (l *loop) checkClock() {
	now := time.Now().Round(0)
	if l.checked.Sub(now) > clockCheck {
		l.work.log().Warn("the clock was set back: all regions are resumed", "from", formatTime(l.checked), "to",
			formatTime(now))
		l.resumeAll()
	}
	l.checked = now
}

// setNextStart sets the first start of a region after a time, by the wall
// clock.
func (l *loop) setNextStart(r *regionState, after time.Time) {
	r.nextStart = jitteredSchedule{r.Region, l.options.Jitter}.Next(after).Round(0)
}

// handleTick makes a region due. While its last pass is running, the tick
// waits, and a later tick replaces it, so that passes neither overlap nor
// queue up.
func (l *loop) handleTick(r *regionState) {
	tick := r.Schedule.Tick(time.Now())
	switch {
	case r.tick.Equal(tick): // it was begun at the start, before its jitter was over
	case r.pass == nil:
		r.due = true
	case r.waitingTick.IsZero():
		l.work.log().Warn("tick waits: the region's last pass still runs", "region", r.Name, "tick", formatTime(tick),
			"running", formatTime(r.tick))
		r.due, r.waitingTick = true, tick
	default:
		l.work.log().Warn("tick skipped: the region's last pass still runs", "region", r.Name, "tick",
			formatTime(r.waitingTick), "running", formatTime(r.tick))
		r.waitingTick = tick
	}
}

// startDue starts passes that are due, up to the limit of parallel ones.
func (l *loop) startDue() {
	l.checkClock()
	var due []string
	now := time.Now()
	for _, r := range l.work.Regions {
		r := l.regions[r.Name]
		if !r.nextStart.IsZero() && !r.nextStart.After(now) {
			l.handleTick(r)
			l.setNextStart(r, now)
		}
		if !r.resumeAt.IsZero() && !r.resumeAt.After(now) {
			r.due, r.resumeAt = true, time.Time{}
		}
		if r.due && r.pass == nil {
			due = append(due, r.Name)
		}
	}
	free := l.options.Parallel - l.running
	if free <= 0 || len(due) == 0 || l.ctx.Err() != nil {
		return
	}
	if l.work.Order != nil && len(due) > 1 {
		if ordered, err := l.work.Order(l.ctx, due); err == nil { // the passes report what is wrong
			due = ordered
		}
	}
	for _, name := range due[:min(free, len(due))] {
		l.beginPass(l.regions[name])
	}
}

func (l *loop) beginPass(r *regionState) {
	tick := r.Schedule.Tick(time.Now())
	if !tick.Equal(r.tick) {
		r.freeTries, r.paidTries = 0, 0
	}
	r.tick, r.due = tick, false
	r.resumeAt, r.waitingTick = time.Time{}, time.Time{}
	r.pass = &activePass{regionState: r, work: l.work, tick: tick, began: time.Now()}
	l.running++
	l.work.running++
	go func(p *activePass, region jobs.Region) {
		p.report = p.work.Run(l.ctx, region)
		l.ended <- p
	}(r.pass, r.Region)
}

// endPass handles the end of a pass and decides when to resume it.
func (l *loop) endPass(p *activePass) {
	r := p.regionState
	r.pass = nil
	l.running--
	p.work.running--
	now := time.Now()
	next := r.Schedule.Next(now)
	var again time.Time
	if !r.due && l.ctx.Err() == nil { // else it starts again now, or never
		again = r.nextTry(p, now)
		if next.IsZero() || again.Before(next) {
			r.resumeAt = again
		}
	}
	if p.isElsewhere() {
		l.logElsewhere(p, now)
	} else {
		p.logResult(again, next)
	}
	if p.work != l.work && p.work.running == 0 {
		p.work.close()
	}
}

// sleepTime returns how long the loop may sleep.
func (l *loop) sleepTime() time.Duration {
	nap := clockCheck
	for _, r := range l.regions {
		for _, at := range []time.Time{r.nextStart, r.resumeAt} {
			if !at.IsZero() {
				nap = min(nap, time.Until(at))
			}
		}
	}
	return max(nap, 0)
}

// waitForPasses waits for the running passes, whose context is cancelled.
func (l *loop) waitForPasses() {
	for l.running > 0 {
		l.endPass(<-l.ended)
	}
	l.work.close()
}

func (w *Work) close() {
	if w.Close != nil {
		w.Close()
	}
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
