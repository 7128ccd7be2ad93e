// Package scheduler takes each region's pass at the ticks of its schedule, one
// pass of a region at a time, and takes up again what a budget or a fault
// stopped.
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/ration-dev/ration/jobs"
)

// Work is what a Scheduler does until it is given other work.
type Work struct {
	Regions []jobs.Region

	// Run takes a region's current pass as far as the budgets allow. When ctx
	// ends it begins nothing more and comes back.
	Run func(ctx context.Context, region jobs.Region) jobs.RegionReport

	// Order says which of several regions goes first; nil takes them as given.
	Order func(ctx context.Context, names []string) ([]string, error)

	// Close is called once, when the last pass of replaced work, or of a
	// scheduler told to stop, has ended. May be nil.
	Close func()

	// Log gets a line for each pass; nil is slog.Default.
	Log *slog.Logger

	running int // passes; the loop's
}

func (w *Work) log() *slog.Logger {
	if w.Log == nil {
		return slog.Default()
	}
	return w.Log
}

// Options of a Scheduler. Nil is the default.
type Options struct {
	Jitter   time.Duration // each start is late by less than this, and than half its period; 0 is on the dot
	Parallel int           // passes at once; 0 is jobs.DefaultParallel
}

// Scheduler starts passes. Its methods are safe for concurrent use.
type Scheduler struct {
	options Options
	replace chan *Work
	came    chan string // a region's tick has come
	ended   chan *pass
	ping    chan struct{}
	stopped chan struct{}
}

// New returns a scheduler that does nothing until Serve.
func New(o *Options) *Scheduler {
	s := &Scheduler{replace: make(chan *Work), came: make(chan string), ended: make(chan *pass), ping: make(chan struct{}), stopped: make(chan struct{})}
	if o != nil {
		s.options = *o
	}
	s.options.Parallel = cmp.Or(s.options.Parallel, jobs.DefaultParallel)
	return s
}

// Serve does the work until ctx ends and the passes under way have come back.
// It begins with what is unfinished of every region's current tick; older
// ticks are not made up for. Call it once.
func (s *Scheduler) Serve(ctx context.Context, w *Work) {
	defer close(s.stopped)
	l := &loop{Scheduler: s, ctx: ctx, regions: map[string]*region{}}
	l.take(w)
	for {
		l.start()
		timer := time.NewTimer(l.nap())
		select {
		case w := <-s.replace:
			l.take(w)
		case name := <-s.came:
			l.tick(name)
		case p := <-s.ended:
			l.end(p)
		case s.ping <- struct{}{}:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			l.stop()
			return
		}
		timer.Stop()
	}
}

// Replace gives the scheduler other work. Passes under way end as they began.
// As at the start, what is unfinished of every region's current tick is taken
// up at once: a budget may have grown. After Serve has come back it only closes w.
func (s *Scheduler) Replace(w *Work) {
	select {
	case s.replace <- w:
	case <-s.stopped:
		w.close()
	}
}

// Alive waits until the scheduler shows that it goes on, and reports whether
// it does.
func (s *Scheduler) Alive(ctx context.Context) bool {
	select {
	case <-s.ping:
		return true
	case <-s.stopped:
	case <-ctx.Done():
	}
	return false
}

// glance is how often the host's clock is looked at. Timers stand still while a
// host is suspended, and know nothing of a clock that is set: a tick is late by
// no more than this.
const glance = time.Minute

// loop is the state of a running scheduler. One goroutine has it.
type loop struct {
	*Scheduler
	ctx     context.Context
	work    *Work
	clock   *cron.Cron
	regions map[string]*region
	running int // passes, of all work
}

// region is where a region's passes stand.
type region struct {
	jobs.Region
	pass  *pass     // under way
	tick  time.Time // of the last pass begun
	due   bool      // to be started as soon as few enough run
	wake  time.Time // when the pass goes on; zero: with the next tick
	waits time.Time // the tick that came while an older pass ran
	free  int       // tries of this tick in vain that cost nothing,
	paid  int       // and those that were charged
}

// pass is one run of a region's pass.
type pass struct {
	*region
	work   *Work
	tick   time.Time
	began  time.Time
	report jobs.RegionReport
}

// take takes work over from what there was.
func (l *loop) take(w *Work) {
	old := l.work
	l.work = w
	regions := make(map[string]*region, len(w.Regions))
	for _, r := range w.Regions {
		known := l.regions[r.Name]
		if known == nil {
			known = &region{}
		}
		known.Region, known.due, known.wake, known.free, known.paid = r, true, time.Time{}, 0, 0
		regions[r.Name] = known
	}
	l.regions = regions
	if old != nil && old.running == 0 {
		old.close()
	}
	l.wind()
}

// wind starts the clockwork: an entry for each region, in UTC, since the
// schedules know their zones, and one that makes cron look at the clock.
func (l *loop) wind() {
	if l.clock != nil {
		l.clock.Stop()
	}
	l.clock = cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	for _, r := range l.work.Regions {
		l.clock.Schedule(starts{r, l.options.Jitter}, cron.FuncJob(func() {
			select {
			case l.came <- r.Name:
			case <-l.stopped:
			}
		}))
	}
	l.clock.Schedule(cron.Every(glance), cron.FuncJob(func() {}))
	l.clock.Start()
}

// tick notes that a region's tick has come. While its last pass still runs
// the tick waits for its end, and a later one takes its place: passes of a region
// never overlap, and do not pile up.
func (l *loop) tick(name string) {
	r := l.regions[name]
	if r == nil {
		return // cron was about to say so when the region was removed
	}
	tick := r.Schedule.Tick(time.Now())
	switch {
	case r.tick.Equal(tick): // it was begun at the start, before its jitter was over
	case r.pass == nil:
		r.due = true
	case r.waits.IsZero():
		l.work.log().Warn("tick waits: the region's last pass still runs", "region", name, "tick", stamp(tick), "running", stamp(r.tick))
		r.due, r.waits = true, tick
	default:
		l.work.log().Warn("tick skipped: the region's last pass still runs", "region", name, "tick", stamp(r.waits), "running", stamp(r.tick))
		r.waits = tick
	}
}

// start starts what is due, as many as may run at once.
func (l *loop) start() {
	var due []string
	now := time.Now()
	for _, r := range l.work.Regions {
		r := l.regions[r.Name]
		if !r.wake.IsZero() && !r.wake.After(now) {
			r.due, r.wake = true, time.Time{}
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
		if ordered, err := l.work.Order(l.ctx, due); err == nil { // else the passes will say what is wrong
			due = ordered
		}
	}
	for _, name := range due[:min(free, len(due))] {
		l.begin(l.regions[name])
	}
}

func (l *loop) begin(r *region) {
	tick := r.Schedule.Tick(time.Now())
	if !tick.Equal(r.tick) {
		r.free, r.paid = 0, 0
	}
	r.tick, r.due, r.wake, r.waits = tick, false, time.Time{}, time.Time{}
	r.pass = &pass{region: r, work: l.work, tick: tick, began: time.Now()}
	l.running++
	l.work.running++
	go func(p *pass, region jobs.Region) {
		p.report = p.work.Run(l.ctx, region)
		l.ended <- p
	}(r.pass, r.Region)
}

// end sees to what a pass came to.
func (l *loop) end(p *pass) {
	r := p.region
	r.pass = nil
	l.running--
	p.work.running--
	now := time.Now()
	next := r.Schedule.Next(now)
	var again time.Time
	if !r.due && l.ctx.Err() == nil { // else it starts again now, or never
		again = r.again(p, now)
		if next.IsZero() || again.Before(next) {
			r.wake = again
		}
	}
	p.tell(again, next)
	if p.work != l.work && p.work.running == 0 {
		p.work.close()
	}
}

// nap is how long the loop may sleep.
func (l *loop) nap() time.Duration {
	nap := glance
	for _, r := range l.regions {
		if !r.wake.IsZero() {
			nap = min(nap, time.Until(r.wake))
		}
	}
	return max(nap, 0)
}

// stop waits for the passes under way, which have been told.
func (l *loop) stop() {
	l.clock.Stop()
	for l.running > 0 {
		l.end(<-l.ended)
	}
	l.work.close()
}

func (w *Work) close() {
	if w.Close != nil {
		w.Close()
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
