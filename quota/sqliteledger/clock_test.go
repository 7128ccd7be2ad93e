package sqliteledger_test

import (
	"cmp"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// host has a clock that can be set, and a time since its start that cannot.
type host struct {
	*testing.T
	path   string
	boot   uint64
	start  time.Time
	up     time.Duration
	ahead  time.Duration // by how much its clock was set ahead
	synced bool
}

func newHost(t *testing.T) *host {
	return &host{T: t, path: filepath.Join(t.TempDir(), "ledger.db"), boot: 7, start: time.Now().Add(-time.Hour)}
}

func (h *host) now() time.Time { return h.start.Add(h.up + h.ahead) }

// process opens the host's ledger.
func (h *host) process() *sqliteledger.Ledger {
	h.Helper()
	l, err := sqliteledger.Open(h.path, &sqliteledger.Options{Sync: sqliteledger.Normal})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = l.Close() })
	l.SetHost(h.now, h.boot, func() time.Duration { return h.up }, func() bool { return h.synced })
	return l
}

// upstream answers with a date, at a time of the monotonic clock.
type upstream struct{ date, arrived time.Time }

func (u *upstream) since(_ string, after time.Time) time.Time {
	if u == nil || !u.arrived.After(after) {
		return time.Time{}
	}
	return u.date
}

// spend makes n calls of a unit each, one after the other, and returns how many
// were granted and the last error.
func (h *host) spend(l *sqliteledger.Ledger, n int, u *upstream, charges ...*quota.Charge) (granted int, last error) {
	h.Helper()
	for range n {
		h.up += time.Millisecond
		batch := one(1, charges...)
		batch.Clock, batch.Upstream = h.now(), u.since
		answers, err := l.Spend(h.Context(), batch)
		if err == nil {
			err = answers[0].Err
		}
		if err == nil {
			granted++
		} else {
			last = err
		}
	}
	return granted, last
}

// fill makes n calls of a unit each at once, which must all be granted.
func (h *host) fill(n int, charges ...*quota.Charge) {
	h.Helper()
	h.up += time.Second
	batch := one(1, charges...)
	batch.Clock = h.now()
	batch.Requests = slices.Repeat(batch.Requests, n)
	answers, err := h.process().Spend(h.Context(), batch)
	for i := range answers {
		err = cmp.Or(err, answers[i].Err)
	}
	if err != nil {
		h.Fatal(err)
	}
}

func limits() []*quota.Charge {
	return []*quota.Charge{charge("day", 500, quota.Sliding(24*time.Hour)), charge("calendar", 500, quota.Daily(time.UTC))}
}

// TestClockSetAheadFreesNothing sets a host's clock ahead after 400 of 500
// calls: several processes are granted what is left by the time since the
// host's start, and the error names both times.
func TestClockSetAheadFreesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{6 * time.Minute, 25 * time.Hour, 49 * time.Hour, 9000 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			h := newHost(t)
			day := limits()[:1]
			h.fill(400, day...)
			h.up += time.Minute
			right := h.now()
			h.ahead = ahead
			granted, stopped := 0, error(nil)
			for range 3 {
				n, err := h.spend(h.process(), 70, nil, day...)
				granted, stopped = granted+n, err
			}
			if granted != 100 {
				t.Errorf("%d granted after the clock was set ahead by %s; want the 100 that were left", granted, ahead)
			}
			if ahead < 24*time.Hour { // by both times the window is full
				if _, ok := errors.AsType[*quota.RefusedError](stopped); !ok {
					t.Errorf("%v; want a refusal", stopped)
				}
				return
			}
			wrong, ok := errors.AsType[*quota.ClockError](stopped)
			if !ok || !errors.Is(stopped, quota.ErrLedgerConfig) || !wrong.ByUptime || !wrong.Upstream.IsZero() || !strings.Contains(wrong.Error(), "ration ledger accept") {
				t.Fatalf("%v; want a ClockError that says what to do", stopped)
			}
			if lead := wrong.Ledger.Sub(wrong.Caller); lead != ahead || wrong.Caller.Sub(right) > time.Second {
				t.Errorf("the error says %s and %s; want the host's clock, and the time without its change", wrong.Ledger, wrong.Caller)
			}

			// Corrected, the clock is trusted, and the entries that are ahead count.
			h.ahead = 0
			l := h.process()
			if granted, err := h.spend(l, 5, nil, day...); granted != 0 {
				t.Errorf("%d granted after the clock was corrected, %v; want none", granted, err)
			}
			if n, err := l.Restamp(t.Context(), "my-project", ""); n != 100 || err != nil {
				t.Errorf("%d restamped, %v; want the 100 of the wrong clock", n, err)
			}
			h.up += 23*time.Hour + 58*time.Minute
			if granted, err := h.spend(l, 5, nil, day...); granted != 0 {
				t.Errorf("%d granted within the day, %v", granted, err)
			}
			h.up += 3 * time.Minute
			if granted, err := h.spend(l, 510, nil, day...); granted != 500 {
				t.Errorf("%d granted a day later, %v; want 500", granted, err)
			}
		})
	}
}

// TestClockInDoubtIsDecidedBy checks who ends the doubt of a clock that is 25
// hours ahead of the time since the host's start.
func TestClockInDoubtIsDecidedBy(t *testing.T) {
	for name, c := range map[string]struct {
		resolve func(h *host, u *upstream)
		want    int
		error   string
	}{
		"nobody":                       {func(*host, *upstream) {}, 0, "does not fit by both"},
		"an answer that supports it":   {func(h *host, u *upstream) { *u = upstream{h.now(), time.Now().Add(time.Hour)} }, 500, ""},
		"an answer from before":        {func(h *host, u *upstream) { *u = upstream{h.now(), time.Now().Add(-time.Hour)} }, 0, "does not fit by both"},
		"an answer that denies it":     {func(h *host, u *upstream) { *u = upstream{h.now().Add(-25 * time.Hour), time.Now().Add(time.Hour)} }, 0, "correct this host's"},
		"a time server":                {func(h *host, _ *upstream) { h.synced = true }, 500, ""},
		"a restart":                    {func(h *host, _ *upstream) { h.boot++ }, 500, ""},
		"a system that does not know":  {func(h *host, _ *upstream) { h.boot = 0 }, 500, ""},
		"the clock, which is set back": {func(h *host, _ *upstream) { h.ahead = 0 }, 0, "0 of 500 units left"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			day := limits()[:1]
			h.fill(500, day...)
			h.ahead = 25 * time.Hour
			l, u := h.process(), &upstream{}
			if granted, err := h.spend(l, 1, u, day...); granted != 0 {
				t.Fatalf("granted, %v; want the doubt to be noticed", err)
			}
			c.resolve(h, u)
			l.SetHost(h.now, h.boot, func() time.Duration { return h.up }, func() bool { return h.synced })
			granted, err := h.spend(l, 510, u, day...)
			if granted != c.want || err == nil || !strings.Contains(err.Error(), c.error) {
				t.Errorf("%d granted, %v; want %d, and %q", granted, err, c.want, c.error)
			}
			if h.synced = false; c.want == 500 && h.boot != 0 { // for good, for every process
				h.up += 25 * time.Hour
				if granted, err := h.spend(h.process(), 510, nil, day...); granted != 500 {
					t.Errorf("%d granted to the next process a day later, %v; want 500", granted, err)
				}
			}
		})
	}
}

// TestClockOfAPausedMachine pauses a virtual machine for eight hours each
// night, and sets its clock right: every call is granted that its day has room
// for, and none more.
func TestClockOfAPausedMachine(t *testing.T) {
	h := newHost(t)
	for night := range 6 {
		l := h.process()
		u := &upstream{}
		granted := 0
		for range 400 {
			n, err := h.spend(l, 1, u, limits()[:1]...)
			if granted += n; n == 0 {
				t.Fatalf("%d granted on day %d, %v; want 400", granted, night, err)
			}
			*u = upstream{h.now(), time.Now()}
		}
		h.up += 16 * time.Hour
		h.ahead += 8*time.Hour + time.Minute
	}
}

// TestClockInDoubtIsAccepted accepts a clock by a batch without one, as
// quota.Guard.AcceptClock does.
func TestClockInDoubtIsAccepted(t *testing.T) {
	h := newHost(t)
	day := limits()[:1]
	h.fill(500, day...)
	h.ahead = 25 * time.Hour
	accept := one(0, day...)
	accept.Requests[0].Force = true
	if answers, err := h.process().Spend(t.Context(), accept); err != nil || answers[0].Err != nil {
		t.Fatal(answers, err)
	}
	if granted, err := h.spend(h.process(), 510, nil, day...); granted != 500 {
		t.Errorf("%d granted after the clock was accepted, %v; want 500", granted, err)
	}
}

// TestClockInDoubtOfOtherWindows: a counter cannot be judged by two times, and
// a key is judged by the host's clock alone.
func TestClockInDoubtOfOtherWindows(t *testing.T) {
	h := newHost(t)
	counter := charge("hour", 500, quota.Counter(time.Hour))
	l := h.process()
	h.fill(500, counter)
	h.ahead = 25 * time.Hour
	granted, err := h.spend(l, 5, nil, counter)
	if _, ok := errors.AsType[*quota.ClockError](err); granted != 0 || !ok {
		t.Errorf("%d granted, %v; want a ClockError", granted, err)
	}
	batch := one(1, counter)
	batch.Key, batch.Clock = "client-1", h.now()
	if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
		t.Errorf("%+v, %v; want a grant of the key's own log", answers, err)
	}
}

// TestClockInDoubtIsDecidedByAnswers makes calls by a Transport after a host's
// clock was set ahead with 100 of 500 units left. An upstream whose date
// supports the clock ends the doubt with its first answer; one that denies it
// ends the calls.
func TestClockInDoubtIsDecidedByAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		lead time.Duration // of the upstream's clock to the host's before it was set
		want int           // calls that arrive
	}{
		"supported": {25 * time.Hour, 500},
		"denied":    {0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.start = h.start.Add(-25 * time.Hour) // so that it is never ahead of the Guard's
			arrived := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				arrived++
				w.Header().Set("Date", h.start.Add(h.up+c.lead).UTC().Format(http.TimeFormat))
			}))
			defer server.Close()
			calls := func(n int) (last error) {
				guard, err := quota.NewGuard(h.process(), []quota.Budget{{Account: "my-project", Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour)}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				price := func(*http.Request) (quota.Call, error) {
					return quota.Call{Account: "my-project", Method: "videos.list", Units: 1}, nil
				}
				client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: price}}
				for range n {
					h.up += time.Millisecond
					resp, err := client.Get(server.URL)
					if err != nil {
						last = err
						continue
					}
					_ = resp.Body.Close()
				}
				return last
			}
			if err := calls(400); err != nil {
				t.Fatal(err)
			}
			h.ahead = 25 * time.Hour
			arrived = 0
			err := calls(510)
			if arrived != c.want {
				t.Errorf("%d calls arrived after the clock was set ahead, %v; want %d", arrived, err, c.want)
			}
			wrong, ok := errors.AsType[*quota.ClockError](err)
			if isDenied := c.want == 1; ok != isDenied || ok && wrong.Upstream.IsZero() {
				t.Errorf("%v; want the upstream's time if that denies the clock", err)
			}
		})
	}
}

// TestClockInDoubtRestoresAndShowsNothingNew: what is shown is what calls are
// judged by, and a restoration waits.
func TestClockInDoubtRestoresAndShowsNothingNew(t *testing.T) {
	h := newHost(t)
	day := limits()[:1]
	h.fill(500, day...)
	h.ahead = 25 * time.Hour
	l := h.process()
	standings, err := l.Standings(t.Context(), "my-project", "", day)
	if err != nil || standings[0].Used != 500 || !standings[0].At.Before(h.now().Add(-24*time.Hour)) {
		t.Errorf("%+v, %v; want 500 used, by the earlier time", standings, err)
	}
	_, err = l.Restore(t.Context(), &quota.Restoration{Account: "my-project", Clock: h.now()})
	if _, ok := errors.AsType[*quota.ClockError](err); !ok {
		t.Errorf("%v; want a ClockError", err)
	}
}

// TestDroppedByAClockAhead: what was dropped while the clock was years ahead
// counts in no window once the clock is right again. All that was ever dropped
// did.
func TestDroppedByAClockAhead(t *testing.T) {
	now := time.Now()
	l, day := open(t, fresh(t), &sqliteledger.Options{Sync: sqliteledger.Normal, Now: func() time.Time { return now }}), charge("day", 1000, quota.Sliding(24*time.Hour))
	defer l.Close()
	for range 50 {
		spend(t, l, 2, day)
	}
	now = now.AddDate(10, 0, 0)
	spend(t, l, 1, day)
	now = now.AddDate(-10, 0, 0)
	if got := used(t, l, day); got != 3 { // the newest entry that is dropped stays
		t.Errorf("%d used; want 3", got)
	}
}
