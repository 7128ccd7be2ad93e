package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
)

// asSpender in the environment makes the test binary a job that spends without
// pause on the ledgers that it names, in their order: when the account has
// moved from one, it goes on with the next. With early in place of the first,
// it goes on as soon as the account is on its way to the second.
const (
	asSpender = "RATION_TEST_AS_SPENDER"
	early     = "early "
)

// spenderMain calls the upstream, whose address is the only argument, until it
// is killed. A call is charged 2 units, and costs 1.
func spenderMain() {
	ledgers, isEarly := strings.CutPrefix(os.Getenv(asSpender), early)
	table, err := costs.Load(filepath.Join(os.Getenv("RATION_CONFIG"), "costs.yaml"))
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "spender:", err)
			os.Exit(1)
		}
	}
	check(err)
	open := func(n int) *client.Client {
		c, err := client.New(table, &client.Options{Ledger: strings.Fields(ledgers)[n]})
		check(err)
		return c
	}
	tell := func(path string) {
		resp, err := http.Get(os.Args[1] + path)
		check(err)
		check(resp.Body.Close())
	}
	c, ctx := open(0), context.Background()
	at := 0
	for calls := 0; ; calls++ {
		if isEarly && at == 0 && calls%10 == 0 {
			next := open(1)
			moved, err := next.Guard().Moved(ctx, "p")
			check(err)
			if isEarly = moved == nil || !moved.Arriving; !isEarly {
				c, at = next, 1
			} else {
				check(next.Close())
			}
		}
		grant, err := c.Guard().Spend(ctx, quota.Call{Account: "p", Method: "m", Units: 2})
		switch {
		case err == nil:
			tell("/call")
			switch err = grant.Settle(ctx, 1); {
			case errors.Is(err, quota.ErrInDoubt):
				tell("/doubt")
			default:
				check(err)
			}
		case errors.Is(err, quota.ErrInDoubt): // the server was busy for a second
			tell("/doubt")
		case errors.Is(err, quota.ErrLedgerDown):
			tell("/down")
		case errors.As(err, new(*quota.MovedError)) && at == 0:
			c, at = open(1), 1
			tell("/moved")
		case errors.Is(err, quota.ErrRefused), errors.Is(err, quota.ErrLedgerBusy):
			tell(fmt.Sprintf("/refused?pid=%d&on=%d", os.Getpid(), at))
			// as a job pauses that is refused; eight that did not would hold up the copy
			time.Sleep(10 * time.Millisecond)
		default:
			check(err)
		}
	}
}

// countingUpstream counts calls, and how often each job was refused by the new
// ledger since the last one.
type countingUpstream struct {
	*httptest.Server
	mu      sync.Mutex
	calls   int
	moved   int
	doubts  int
	refused map[string]int
}

func startCountingUpstream(t *testing.T) *countingUpstream {
	u := &countingUpstream{refused: map[string]int{}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		defer u.mu.Unlock()
		switch r.URL.Path {
		case "/call":
			u.calls++
			clear(u.refused)
		case "/doubt":
			u.doubts++
		case "/moved":
			u.moved++
		case "/refused":
			if r.FormValue("on") == "1" {
				u.refused[r.FormValue("pid")]++
			}
		}
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *countingUpstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls
}

// forget forgets the refusals so far: what the copy brings last may free units.
func (u *countingUpstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.refused)
}

// exhausted reports whether the new ledger has refused each of the jobs since
// the last call was sent, for longer than a job remembers a refusal.
func (u *countingUpstream) exhausted(jobs int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	done := 0
	for _, n := range u.refused {
		if n >= 150 { // a job pauses for 10 ms
			done++
		}
	}
	return done == jobs
}

// TestAMoveGrantsNothingTwice moves an account while eight processes spend:
// four go on with the new ledger when the old one says so, four as soon as the
// copy has begun. The copy is killed at several points and run again. The
// upstream counts exactly the limit, and the settlements of calls in flight
// arrive.
func TestAMoveGrantsNothingTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes while a ledger moves, 15 seconds")
	}
	t.Parallel()
	const limit = 2000
	redis := servers.StartRedis(t).URL()
	for _, c := range []struct{ name, from, to string }{
		{"SQLite to Redis", "sqlite:old.db?sync=normal", redis + "?db=1"},
		{"Redis to SQLite", redis + "?db=2", "sqlite:new.db?sync=normal"},
		{"Redis to Redis", redis + "?db=3", redis + "?db=4"},
		{"SQLite to SQLite", "sqlite:old.db?sync=normal", "sqlite:new.db?sync=normal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stand{dir: t.TempDir()}
			s.write(t, "costs.yaml",
				fmt.Sprintf("version: 1\naccount: p\ncosts: {m: 1}\nbudgets: [{name: all, limit: %d, window: 24h}]\n",
					limit))
			from, to := s.address(t, c.from), s.address(t, c.to)
			u := startCountingUpstream(t)
			for i := range 8 {
				ledgers := from + " " + to
				if i%2 == 1 {
					ledgers = early + ledgers
				}
				s.startSpender(t, u.URL, ledgers)
			}
			await := func(what string, done func() bool) {
				t.Helper()
				for end := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("waited a minute for %s; the upstream counted %d", what, u.count())
					}
				}
			}
			await("the jobs to spend", func() bool { return u.count() > 50 })
			s.killCopies(t, from, to, await)
			s.copyAccount(t, from, to)
			u.forget()
			await("the budget to be spent", func() bool { return u.exhausted(8) })
			// With one unit left no call is granted.
			if n := u.count(); n > limit-1 || n < limit-1-2*u.doubts {
				t.Errorf("the upstream counted %d calls, with %d in doubt; want %d", n, u.doubts, limit-1)
			}
			_, out, _ := s.run(t, nil, "status", "--json", "--ledger", to)
			if want := fmt.Sprintf(`"used":%d,`, limit-1); !strings.Contains(out, want) && u.doubts == 0 {
				t.Errorf("status: %s; want %s", out, want)
			}
			t.Logf("%d calls; %d jobs were told by the old ledger, %d calls in doubt", u.count(), u.moved, u.doubts)
		})
	}
}

// address returns a ledger's address, which is in the stand's folder or a
// database of the server.
func (s *stand) address(t *testing.T, text string) string {
	t.Helper()
	if file, ok := strings.CutPrefix(text, "sqlite:"); ok {
		return "sqlite:" + filepath.Join(s.dir, file)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawQuery = "/"+u.Query().Get("db"), ""
	return u.String()
}

// startSpender starts a job that ends with the test.
func (s *stand) startSpender(t *testing.T, upstream, ledgers string) {
	t.Helper()
	cmd := s.command(upstream)
	cmd.Env = append(cmd.Env, asSpender+"="+ledgers)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

func (s *stand) copyAccount(t *testing.T, from, to string) {
	t.Helper()
	if code, out, text := s.run(t, nil, "ledger", "copy", from, to, "--grace", "1s"); code != exitDone {
		t.Fatalf("exit code %d: %s%s", code, out, text)
	}
}

func (s *stand) open(t *testing.T, address string) *client.Client {
	t.Helper()
	table, err := costs.Load(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(table,
		&client.Options{Ledger: address, State: s.dir, Replica: filepath.Join(s.dir, "replica")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// moves reports whether the account is closed in a ledger.
func (s *stand) moves(t *testing.T, address string) bool {
	c := s.open(t, address)
	defer c.Close()
	moved, err := c.Guard().Moved(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	return moved != nil
}

func (s *stand) entries(t *testing.T, address string) (n int) {
	c := s.open(t, address)
	defer c.Close()
	for _, err := range c.Guard().Entries(t.Context(), quota.Query{Account: "p"}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// killCopies begins to copy four times, and kills the process a little later
// each time.
func (s *stand) killCopies(t *testing.T, from, to string, await func(what string, done func() bool)) {
	t.Helper()
	for _, p := range []struct {
		point   string
		reached func() bool
	}{
		{"the process to run", func() bool { return true }},
		{"the new one to close", func() bool { return s.moves(t, to) || s.moves(t, from) }},
		{"the old one to close", func() bool { return s.moves(t, from) }},
		{"the entries to arrive", func() bool { return s.entries(t, to) > 0 }},
	} {
		cmd := s.command("ledger", "copy", from, to, "--grace", "1s")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(p.point, p.reached)
		cmd.Process.Kill()
		cmd.Wait()
	}
}

// TestCopyRestoresWhatThisHostKnows: a ledger that has forgotten everything
// gets back what this host knows before it is copied.
func TestCopyRestoresWhatThisHostKnows(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 100, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		"US")
	redis := servers.StartRedis(t)
	ledger := []string{"RATION_LEDGER=" + redis.URL()}
	if code, _, text := s.run(t, ledger, "spend", "videos.list"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	redis.Do(t, "flushall")
	to := "sqlite:" + filepath.Join(t.TempDir(), "new.db")
	code, out, text := s.run(t, ledger, "ledger", "copy", redis.URL(), to, "--grace", "0s", "--json")
	if code != exitDone || !strings.Contains(out, `"entries":2,"units":1,"calls":1`) {
		t.Errorf("exit code %d: %s%s; want that the call is copied", code, out, text)
	}
	if !strings.Contains(text, "had lost records") {
		t.Errorf("%q; want that it was restored", text)
	}
}

// TestHalfACopyAsksForTheRest: when the copy of a second account was
// interrupted, the first one's report said to use the new ledger on every host,
// where nothing was used of the second.
func TestHalfACopyAsksForTheRest(t *testing.T) {
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: p\ncosts: {m: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for isComplete, want := range map[bool]string{true: "name the new ledger on every host",
		false: "run the same command again before a host uses sqlite:new.db\n"} {
		var out strings.Builder
		a := &app{stdout: &out, now: time.Now, getenv: func(string) string { return "" }}
		report := &copyReport{From: "sqlite:old.db", To: "sqlite:new.db", Accounts: []*replica.Report{{Account: "p"}}}
		if err := a.printCopy(report, table, isComplete); err != nil ||
			strings.Contains(out.String(), "on every host") != isComplete || !strings.Contains(out.String(), want) {
			t.Errorf("complete %t: %v, %q; want %q", isComplete, err, out.String(), want)
		}
	}
}
