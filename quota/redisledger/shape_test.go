package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestBytesAnEntry: 9,500 calls take at most 32 bytes each.
func TestBytesAnEntry(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	const n = 9500
	for i := 0; i < n; i += 100 {
		batch := quota.Batch{Account: account}
		for j := range 100 {
			caller := quota.Caller{Lane: "cron", Job: fmt.Sprint("job", j%5), Region: fmt.Sprint("R", j%8)}
			batch.Requests = append(batch.Requests, quota.Request{Method: "videos.list", Units: 1, Caller: caller, Charges: []*quota.Charge{day}})
		}
		if _, err := l.Spend(t.Context(), &batch); err != nil {
			t.Fatal(err)
		}
	}
	key := do(t, client, "keys", "*:log").([]any)[0]
	bytes := do(t, client, "memory", "usage", key, "samples", 0).(int64)
	t.Logf("%d entries take %d bytes, %.1f each", n, bytes, float64(bytes)/n)
	if bytes > 32*n {
		t.Errorf("%d bytes; want at most %d", bytes, 32*n)
	}
}

// spare is for how long a clock may be ahead without deleting what an account
// has spent: SPARE of layout.lua.
const spare = 35 * 24 * time.Hour

// TestKeysExpire: every key expires after two horizons or more, and those of an
// account that cannot be filled from its log much later; with an injected clock
// no key expires.
func TestKeysExpire(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	search := charge("search", 100, quota.Sliding(time.Hour), "search")
	counter := charge("counter", 100, quota.Counter(time.Minute))
	for _, now := range []func() time.Time{nil, time.Now} {
		do(t, client, "flushall")
		l := fresh(t, server.URL(), now)
		for _, key := range []string{"", "203.0.113.9"} {
			r := quota.Request{Method: "search", Units: 1, Charges: []*quota.Charge{day, search, counter}}
			if _, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Client: 7, Seq: 1, Requests: []quota.Request{r}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.SetCooldown(t.Context(), quota.Cooldown{Account: account, Budget: "x", Until: time.Now().Add(30 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		keys := do(t, client, "keys", "*").([]any)
		if len(keys) != 11 { // meta, cooldowns, the account's spelling, and for each of two logs the log, the batch, a list and a counter
			t.Errorf("%d keys: %v", len(keys), keys)
		}
		for _, key := range keys {
			least, name := 2*24*time.Hour, key.(string)
			switch _, rest, _ := strings.Cut(name, "}:"); {
			case strings.Contains(name, ":spelled:"):
				least = 29 * 24 * time.Hour
			case rest == "cool":
				least = 30 * time.Hour
			case rest == "meta", rest == "log":
				least += spare
			case strings.HasPrefix(rest, "log:") && do(t, client, "type", key) == "string" && do(t, client, "strlen", key).(int64) == 19:
				least = spare + 4*time.Minute // a counter
			case strings.Contains(rest, ":c") && len(rest)-strings.LastIndex(rest, ":") == 14:
				least = 9 * time.Minute
			case strings.Count(rest, ":") == 1 && strings.HasPrefix(rest, "log:"), strings.Count(rest, ":") == 2:
				least = 4 * time.Minute // a list of an hour, or a counter of a minute
			}
			left := time.Duration(do(t, client, "pttl", key).(int64)) * time.Millisecond
			if now == nil && (left < least || left > least+49*time.Hour) || now != nil && left >= 0 {
				t.Errorf("%s lives for %s; want at least %s on real time, not much more, and for ever on an injected clock", name, left, least)
			}
		}
	}
}

// TestOldRecordsGo: the log, a list in use and a list that is only written all
// drop records older than every window.
func TestOldRecordsGo(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := fresh(t, server.URL(), clock.Now)
	asked, fed := charge("asked", 1e6, quota.Sliding(time.Hour), "m"), charge("fed", 1e6, quota.Sliding(time.Minute), "m", "n")
	mustSpend(t, l, "m", 1, asked, fed)
	for range 27 * 60 {
		clock.Add(time.Minute)
		mustSpend(t, l, "m", 1, asked)
	}
	lengths := map[int64]bool{}
	for _, key := range do(t, client, "keys", "*:log*").([]any) {
		if do(t, client, "type", key) == "list" {
			lengths[do(t, client, "llen", key).(int64)] = true
		}
	}
	for n := range lengths {
		if n > 5 && (n < 67 || n > 72) {
			t.Errorf("a list of %d records; want those of a minute, or an hour, and what Retention adds", n)
		}
	}
	if len(lengths) != 2 || used(t, l, asked) != 60 || used(t, l, fed) != 1 {
		t.Errorf("lists of %v records, used %d and %d; want 60 and 1", lengths, used(t, l, asked), used(t, l, fed))
	}
}

// TestManyLabelsAndCoverages: labels beyond 65,000 share one, and coverages
// beyond 128 replace the oldest; every sum stays right.
func TestManyLabelsAndCoverages(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	search := charge("search", 1000, quota.Sliding(time.Hour), "search")
	mustSpend(t, l, "search", 1, day, search)
	do(t, client, "hset", do(t, client, "keys", "*:meta").([]any)[0], "labels", 65000)
	mustSpend(t, l, "new", 2, day)
	for i := range 200 {
		mustSpend(t, l, "search", 1, charge("many", 1000, quota.Sliding(time.Hour), "search", fmt.Sprint("m", i)))
	}
	if all, some := used(t, l, day), used(t, l, search); all != 203 || some != 203 { // the two units of the label without a number count everywhere
		t.Errorf("%d units, %d searches; want 203 of both", all, some)
	}
	log := entries(t, l)
	if log[0].Method != "search" || log[1].Method != "other" || log[2].Method != "search" {
		t.Errorf("the log begins with %+v", log[:3])
	}
}

// TestAllLabelsAreNumbered: of 65,000 labels each has a number of its own.
func TestAllLabelsAreNumbered(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 65,000 calls, 2 seconds")
	}
	l := fresh(t, redistest.Start(t).URL(), nil)
	const labels, batch = 65_000, 250 // of 1000, the script can take a second on a busy machine
	all := charge("all", labels+1, quota.Sliding(time.Hour))
	for first := 0; first < labels; first += batch {
		many := &quota.Batch{Account: account}
		for i := range batch {
			many.Requests = append(many.Requests, quota.Request{Method: fmt.Sprint("m", first+i), Units: 1, Charges: []*quota.Charge{all}})
		}
		if _, err := l.Spend(t.Context(), many); err != nil {
			t.Fatal(err)
		}
	}
	mustSpend(t, l, "one too many", 1, all)
	seen := map[string]bool{}
	for _, e := range entries(t, l) {
		seen[e.Method] = true
	}
	if len(seen) != labels+1 || !seen["other"] {
		t.Errorf("%d methods in the log; want %d and other", len(seen), labels)
	}
}

// TestUnknownLabelReusesNoID: an entry without its label, which the ledger lost
// or never kept, does not say that a call repeated by its id is another one.
func TestUnknownLabelReusesNoID(t *testing.T) {
	for _, isKept := range []bool{true, false} {
		server := redistest.Start(t)
		client := raw(t, server)
		spend := func(method string) *quota.Grant {
			budget := quota.Budget{Account: account, Name: "day", Limit: 100, Window: quota.Sliding(time.Hour)}
			l, err := redisledger.Open(server.URL(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			g, err := quota.NewGuard(l, []quota.Budget{budget}, nil)
			if err != nil {
				t.Fatal(err)
			}
			grant, err := g.Spend(t.Context(), quota.Call{Account: account, Method: method, Units: 2, ID: quota.NameID(method, "")})
			if err != nil {
				t.Errorf("%s, kept %t: %v", method, isKept, err)
			}
			return grant
		}
		spend("first")
		meta := do(t, client, "keys", "*:meta").([]any)[0]
		if !isKept {
			do(t, client, "hset", meta, "labels", 65000)
		}
		spend("m")
		if isKept {
			do(t, client, "del", meta)
		}
		if n := spend("m").Call().Units; n != 2 {
			t.Errorf("kept %t: %d units; want those of the first grant, 2", isKept, n)
		}
	}
}

// TestLongestWindowStays: the log keeps the entries of the longest window,
// however many coverages follow.
func TestLongestWindowStays(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	l := fresh(t, server.URL(), clock.Now)
	month := charge("month", 1000, quota.Sliding(30*24*time.Hour), "m")
	mustSpend(t, l, "m", 1, month)
	for i := range 200 {
		mustSpend(t, l, "m", 1, charge("many", 1000, quota.Sliding(time.Hour), "m", fmt.Sprint("m", i)))
	}
	for range 3 {
		clock.Add(9 * 24 * time.Hour)
		mustSpend(t, l, "m", 1, day)
	}
	if sum := used(t, l, month); sum != 204 {
		t.Errorf("%d units in 27 days; want 204", sum)
	}
	if sum := used(t, l, charge("new", 1000, quota.Sliding(30*24*time.Hour), "m", "n")); sum != 204 {
		t.Errorf("%d units by a list filled from the log; want 204", sum)
	}
}

// TestTooMuchAtOnce: a batch that cannot be encoded is a bad call, and no part
// of it is written.
func TestTooMuchAtOnce(t *testing.T) {
	server := redistest.Start(t)
	many := func(coverages int) (all []*quota.Charge) {
		for i := range coverages {
			all = append(all, charge("many", 1000, quota.Sliding(time.Hour), "m", fmt.Sprint("m", i)))
		}
		return all
	}
	for _, c := range []struct {
		requests, coverages int
		want                error
	}{{1, 128, nil}, {1, 129, quota.ErrBadCall}, {2000, 1, nil}, {1 << 16, 1, quota.ErrBadCall}} {
		l := fresh(t, server.URL(), nil)
		charges := many(c.coverages)
		batch := &quota.Batch{Account: account, Requests: make([]quota.Request, c.requests)}
		for i := range batch.Requests { // no two alike in a row
			batch.Requests[i] = quota.Request{Method: "m", Units: quota.Units(i%2) + 1, Charges: charges}
		}
		_, err := l.Spend(t.Context(), batch)
		log := redisledger.LogKey(l, account)
		if n := server.Do(t, "llen", log).(int64); !errors.Is(err, c.want) || n > 0 && err != nil || n == 0 && err == nil {
			t.Errorf("%d requests of %d coverages: %v, and %d entries; want %v", c.requests, c.coverages, err, n, c.want)
		}
	}
}

// TestStaleBatch: a delayed batch that arrives after a later one of its client
// must not be charged.
func TestStaleBatch(t *testing.T) {
	server := redistest.Start(t)
	l := fresh(t, server.URL(), nil)
	batch := func(seq uint64) error {
		_, err := l.Spend(t.Context(), &quota.Batch{Account: account, Client: 7, Seq: seq,
			Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}})
		return err
	}
	if err := errors.Join(batch(1), batch(1<<40)); err != nil {
		t.Fatal(err)
	}
	if err := batch(1); !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%v; want ErrInDoubt", err)
	}
	if err := batch(1 << 53); !errors.Is(err, quota.ErrBadCall) {
		t.Errorf("%v; want ErrBadCall", err)
	}
	if sum := used(t, l, day); sum != 2 {
		t.Errorf("%d units; want 2", sum)
	}
}

// TestHostClockIsWrong: days follow the server's clock, not the host's.
func TestHostClockIsWrong(t *testing.T) {
	server := redistest.Start(t)
	daily := charge("day", 10, quota.Daily(time.UTC))
	for _, off := range []time.Duration{-50 * time.Hour, -time.Second, 50 * time.Hour, 9000 * time.Hour} {
		l := fresh(t, server.URL(), nil)
		redisledger.SetHost(l, func() time.Time { return time.Now().Add(off) })
		receipt := mustSpend(t, l, "m", 10, daily)
		_, err := spend(t, l, "m", 1, daily)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if near := time.Since(receipt.At).Abs(); near > time.Minute || !ok || refused.RetryAfter > 25*time.Hour || used(t, l, daily) != 10 {
			t.Errorf("%s off: stamped %s, then %v", off, receipt.At, err)
		}
	}
}

// tamper changes one argument of a batch on its way.
type tamper struct{ change func(args []any) }

func (h *tamper) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *tamper) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *tamper) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if h.change != nil && slices.Contains([]string{"evalsha", "eval"}, cmd.Name()) && slices.ContainsFunc(args, isBatch) {
			h.change(args)
		}
		return next(ctx, cmd)
	}
}

// isBatch reports whether an argument is a batch, which only the spend script
// takes: after a lost answer, a process first learns the account again.
func isBatch(arg any) bool {
	_, ok := arg.([]byte)
	return ok
}

// TestScriptRefusesBadArguments: the script itself checks what it is given,
// and writes nothing then.
func TestScriptRefusesBadArguments(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	hook := &tamper{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(hook)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Now: time.Now})
	search := charge("search", 1000, quota.Sliding(time.Hour), "search")
	mustSpend(t, l, "search", 1, day, search)
	mustSpend(t, l, "m", 1, day)
	// evalsha sha 3 meta log list | batch time; of the batch head 0-11, mode
	// 12, keeps 13, own 14, client 15-20, seq 21-27, known 28-34, clock 35-41,
	// horizon 42-48, numbers 49-53, charges 54 and 98, source 142, run 151:
	// label 151-152, units 153-156, source 166, charges 167
	const args = 3 + 2
	splice := func(args []any, n, from int, bytes string) {
		b := slices.Clone(args[n].([]byte))
		copy(b[from:], bytes)
		args[n] = b
	}
	before := contents(t, client)
	for name, change := range map[string]func([]any){
		"time nan":         func(a []any) { a[args+2] = "nan" },
		"time inf":         func(a []any) { a[args+2] = "inf" },
		"time negative":    func(a []any) { a[args+2] = "-1" },
		"time 1.5":         func(a []any) { a[args+2] = "1.5" },
		"time hex":         func(a []any) { a[args+2] = "0x10" },
		"time decimal":     func(a []any) { a[args+2] = "1795170937" },
		"cut in the id":    func(a []any) { a[args+1] = a[args+1].([]byte)[:24] },
		"cut in a charge":  func(a []any) { a[args+1] = a[args+1].([]byte)[:114] },
		"cut in a group":   func(a []any) { a[args+1] = a[args+1].([]byte)[:166] },
		"no such mode":     func(a []any) { splice(a, args+1, 12, "\x04") },
		"no units":         func(a []any) { splice(a, args+1, 153, "\x00\x00\x00\x00") },
		"no label":         func(a []any) { splice(a, args+1, 151, "\x00\x00") },
		"units too many":   func(a []any) { splice(a, args+1, 153, "\x7f\xff\xff\xff") },
		"kind of window":   func(a []any) { splice(a, args+1, 54, "\x09") },
		"counter's list":   func(a []any) { splice(a, args+1, 54, "\x03\x01") },
		"no such source":   func(a []any) { splice(a, args+1, 55, "\x07") },
		"no such feed":     func(a []any) { splice(a, args+1, 166, "\x07") },
		"resent, no log":   func(a []any) { splice(a, args+1, 12, "\x02\x00") },
		"window of 0":      func(a []any) { splice(a, args+1, 57, "\x00\x00\x00\x00\x00\x00\x00") },
		"limit of 0":       func(a []any) { splice(a, args+1, 64, "\x00\x00\x00\x00\x00\x00") },
		"limit of 2^48-1":  func(a []any) { splice(a, args+1, 64, "\xff\xff\xff\xff\xff\xff") },
		"no such charge":   func(a []any) { splice(a, args+1, 167, "\x00\x03") },
		"too many groups":  func(a []any) { splice(a, args+1, 52, "\x00\x09") },
		"too many charges": func(a []any) { splice(a, args+1, 50, "\x00\x09") },
	} {
		hook.change = change
		if _, err := spend(t, l, "search", 1, day, search); !errors.Is(err, quota.ErrLedgerConfig) {
			t.Errorf("%s: %v; want an error by the script", name, err)
		}
		if contents(t, client) != before {
			t.Fatalf("%s: something was written", name)
		}
	}
}
