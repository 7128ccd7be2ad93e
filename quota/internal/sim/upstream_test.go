//go:build !race

package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// never is when a ledger learns of a call that it cannot know.
var never = time.Unix(1<<40, 0)

// sending is one attempt of a call that was granted, and may have arrived.
type sending struct {
	host      int
	process   int
	method    string
	caller    quota.Caller
	price     quota.Units
	charged   quota.Units // the price, or more if it turned out to cost more
	real      quota.Units // by the upstream's own table
	limits    limits      // of its process
	receipt   quota.Receipt
	allowance bool // granted by the journal
	decided   time.Time
	arrived   time.Time     // zero before
	day       int           // of the year, by the upstream's clock
	ahead     time.Duration // of the host's clock, of a call within an allowance
	boot      uint64        // of the host, when the call was granted
	early     time.Duration // by how much the most that clock was corrected since, if the host cannot tell when the call was
	inFlight  bool          // the ledger forgot it before its answer arrived
	counts    [len(budgets)]knowledge
}

func (s *sending) String() string {
	return fmt.Sprintf("host %d process %d %s of %d (%d)", s.host, s.process, s.method, s.price, s.real)
}

// upstream counts what arrives, by its own clock and table.
type upstream struct {
	w   *world
	mu  sync.Mutex
	all []*sending // what arrived, less what is too old to matter
}

// trip is what a process sends its requests with.
type trip struct {
	p   *process
	rng *rand.Rand // of the worker
}

// RoundTrip implements http.RoundTripper. As net/http does, it sends a request
// again if the connection goes away, and says so through httptrace.
func (t trip) RoundTrip(req *http.Request) (*http.Response, error) {
	c := callFrom(req.Context())
	trace := httptrace.ContextClientTrace(req.Context())
	asks := true
	for again := true; again; asks = t.rng.IntN(2) == 0 {
		if asks { // HTTP/2 need not when it sends again
			trace.GetConn("upstream")
		}
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		trace.GotConn(httptrace.GotConnInfo{Reused: true})
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		trace.WroteHeaders()
		time.Sleep(time.Duration(1 + t.rng.Int64N(int64(time.Second))))
		if t.p.isDead() {
			return nil, io.ErrUnexpectedEOF
		}
		t.p.w.upstream.arrive(c)
		again = t.rng.Float64() < t.p.w.goAway
	}
	time.Sleep(time.Duration(1 + t.rng.Int64N(int64(time.Second))))
	if t.p.isDead() {
		return nil, io.ErrUnexpectedEOF
	}
	status := http.StatusOK
	switch p := t.rng.Float64(); {
	case p < t.p.w.coolAt:
		status = http.StatusTooManyRequests
	case p < t.p.w.coolAt+0.02:
		status = http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
}

// arrive counts one attempt of a call, and checks the invariants.
func (u *upstream) arrive(c *call) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w := u.w
	if c.sent >= len(c.granted) {
		w.fail("I2: a call of process %d reached the upstream %d times and was granted %d times", c.p.number, c.sent+1, len(c.granted))
		return
	}
	s := c.granted[c.sent]
	c.sent++
	s.arrived = time.Now()
	s.day = u.dayAt(s.arrived)
	w.event("arrive %v", s)
	w.calls++
	u.all = append(u.all, s)
	for len(u.all) > 0 && time.Since(u.all[0].arrived) > 50*time.Hour {
		u.all = u.all[1:]
	}
	for i := len(u.all) - 1; i >= 0 && time.Since(u.all[i].arrived) < time.Minute; i-- {
		if d := u.all[i]; !d.decided.Before(s.decided) {
			u.check(d)
		}
	}
}

// check checks that a grant was right: with all that the ledger had to know
// then, no window held more than its limit.
func (u *upstream) check(d *sending) {
	w := u.w
	for i := range budgets {
		b := &budgets[i]
		isLimited := d.limits[i] > 0
		if d.allowance {
			isLimited = i == 0
		}
		if amount(b, d) == 0 || !isLimited {
			continue
		}
		sum := quota.Units(0)
		var within []*sending
		for _, x := range u.all {
			switch {
			case amount(b, x) == 0 || x.decided.After(d.decided) || !u.sameWindow(b, x, d):
				continue
			case d.allowance && (!x.allowance || x.host != d.host):
				continue
			case !d.allowance && x != d && (x.counts[i].since.After(d.decided) || x.inFlight):
				continue
			}
			within = append(within, x)
			sum += amount(b, x)
		}
		limit := u.limit(i, d)
		if d.allowance {
			limit = allowance
		}
		over := sum - limit - u.risen(b, d)
		if over > 0 && !d.allowance && over <= u.forked(b, d) {
			w.event("  of one history and another: %d over", over)
			w.forked = true
			continue
		}
		if over > 0 {
			counted := w.server.counted()
			for _, x := range within {
				w.event("  in window: %v, decided %s known %s lost %s memory %b allowance %v, counted %d", x, w.clock(x.decided), w.clock(x.counts[i].since), w.clock(x.counts[i].lost), x.counts[i].memory, x.allowance, counted[x.receipt.ID])
			}
			for _, e := range w.server.entries() {
				if e.Kind == quota.EntryNote {
					w.event("  note: %s of client %x, %d units, %d calls", w.clock(e.At), e.ID.Client, e.Units, e.Calls)
				}
			}
			w.fail("I1: %v (allowance %v): the window of %s holds %d of %d", d, d.allowance, b.Name, sum, limit)
			return
		}
	}
}

// limit returns the limit of a budget that held for a grant: another file's, if
// that is lower, was asked in the last day, and the ledger has forgotten
// nothing since.
func (u *upstream) limit(budget int, d *sending) quota.Units {
	limit := d.limits[budget]
	for _, x := range u.all {
		isAsked := u.w.twoFiles() && x.limits[budget] > 0 && covers(&budgets[budget], x) && !x.allowance && x.decided.After(u.w.forgot)
		if isAsked && x.decided.Before(d.decided) && d.decided.Sub(x.decided) < quota.LimitHold-2*u.w.wobble {
			limit = min(limit, x.limits[budget])
		}
	}
	return limit
}

// forked returns how much a log and an older copy of it held under one epoch,
// and not in common, of a budget's window and the one before: what hosts
// remember of both looks like one history, and what they heard in this window
// counted calls of the other. See "What is not closed" in docs/faults.md.
func (u *upstream) forked(b *quota.Budget, d *sending) (units quota.Units) {
	for _, lives := range u.w.server.held {
		for _, entries := range lives {
			for id, e := range entries {
				isShared := !slices.ContainsFunc(lives, func(other map[grantID]quota.Entry) bool { _, ok := other[id]; return !ok })
				isRecent := d.decided.Sub(e.At) < 2*(lengthOf(b)+u.w.wobble)
				if !isShared && isRecent && b.Coverage().Covers(e.Method, e.Caller) {
					units += quota.Units(decide.Amount(b.Coverage(), int64(e.Units), int64(e.Calls)))
				}
			}
		}
	}
	return units
}

// risen returns by how much the calls of a budget's window, and of the one
// before, cost more than their price: it is learnt after they were granted, and
// can be lost, or taken for a part of what others had spent. See "What a
// restoration lacks" in docs/faults.md.
func (u *upstream) risen(b *quota.Budget, d *sending) (units quota.Units) {
	for _, x := range u.all {
		if d.decided.Sub(x.decided) < 2*(lengthOf(b)+u.w.wobble) && b.Measure == quota.ByUnits {
			units += max(0, amount(b, x)-x.price)
		}
	}
	return units
}

// sameWindow reports whether one window of a budget holds both, whatever the
// error of the ledger's clock. A call within an allowance that is dated by its
// host's clock leaves the window earlier if that is corrected before the ledger
// is back. See "Clocks" in docs/faults.md.
func (u *upstream) sameWindow(b *quota.Budget, x, d *sending) bool {
	if b.Window.Kind() == quota.KindDaily {
		return x.day == d.day && u.dayAt(x.arrived.Add(-x.early)) == d.day
	}
	length := b.Window.Length() - x.early
	if d.allowance {
		length = 24*time.Hour - time.Minute
	}
	return x.decided.Sub(d.decided)+length > 2*u.w.wobble
}

// dayAt returns the day of the year at a time, by the upstream's clock.
func (u *upstream) dayAt(t time.Time) int { return t.Add(u.w.ahead).In(pacific).YearDay() }

func lengthOf(b *quota.Budget) time.Duration {
	if b.Window.Kind() == quota.KindSliding {
		return b.Window.Length()
	}
	return 24 * time.Hour
}

func covers(b *quota.Budget, s *sending) bool {
	allows := func(only []string, word string) bool { return len(only) == 0 || only[0] == word }
	return allows(b.Methods, s.method) && allows(b.Lanes, s.caller.Lane) && allows(b.Regions, s.caller.Region)
}

// amount is what a call adds to a budget, in the upstream's count.
func amount(b *quota.Budget, s *sending) quota.Units {
	if !covers(b, s) {
		return 0
	}
	if b.Measure == quota.Calls {
		return 1
	}
	return s.real
}
