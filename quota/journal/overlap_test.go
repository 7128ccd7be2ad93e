//go:build linux || darwin

package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestOverlapLosesCalls: Redis loses keys, or gets older copies of them, or a
// SQLite file is lost, while processes of several hosts make calls, settle
// some, notice losses and restore the log, all at once. When each has called
// once more, the log has every call that was granted, with what it cost, and
// nothing else, but for calls in doubt, and charges that were lowered during a
// restoration. RATION_SOAK=1 draws forty games of each kind; RATION_DRAWN_SEED
// repeats the draws of a failure, if not their timing.
func TestOverlapLosesCalls(t *testing.T) {
	games := 2
	if os.Getenv("RATION_SOAK") == "1" {
		games = 40
	}
	server := redistest.Start(t)
	for kind, loses := range map[string]overlapKind{
		"keys":   {lose: (*overlap).loseKeys, settles: true},
		"copies": {lose: (*overlap).putBack}, // they may lack a raise alone, which nobody notices
		"files":  {lose: (*overlap).loseFile, settles: true, isFile: true},
	} {
		for n := range games {
			seed := rand.Uint64()
			if text := os.Getenv("RATION_DRAWN_SEED"); text != "" {
				seed, _ = strconv.ParseUint(text, 10, 64)
			}
			t.Run(fmt.Sprint(kind, " ", n), func(t *testing.T) {
				o := &overlap{T: t, overlapKind: loses, server: server, name: fmt.Sprint(kind, n), draws: rand.New(rand.NewPCG(seed, 0)), due: make(chan bool, 1), calls: map[quota.ID]overlapCall{}, doubts: map[quota.ID]bool{}}
				o.folder = filepath.Join(t.TempDir(), "ledger")
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("RATION_DRAWN_SEED=%d draws\n%s", seed, strings.Join(o.log, "\n"))
					}
				})
				o.play()
			})
		}
	}
}

// overlapKind is what kind of ledger loses what.
type overlapKind struct {
	lose    func(*overlap)
	settles bool // calls are settled too
	isFile  bool // SQLite, else Redis
}

// overlap is one game.
type overlap struct {
	*testing.T
	overlapKind
	server  *redistest.Server
	name    string // the prefix of the game's keys
	folder  string // of a file
	draws   *rand.Rand
	charges []*quota.Charge
	clients atomic.Uint64
	due     chan bool // gets a value when the next fault is due
	copied  []any     // keys, each with its value

	mu     sync.Mutex
	calls  map[quota.ID]overlapCall
	doubts map[quota.ID]bool // calls that may have been granted
	log    []string
}

// overlapCall is what a call must count for in the end.
type overlapCall struct {
	now, before amounts // before it was settled
	isUnsettled bool    // perhaps: the ledger has returned an error
}

type amounts struct{ units, calls quota.Units }

// isRight reports whether a log counts a call as it must. What was lowered
// while the log was restored may stay as it was.
func (c overlapCall) isRight(got amounts) bool {
	mayStay := c.isUnsettled || c.before.units > c.now.units || c.before.calls > c.now.calls
	return got == c.now || mayStay && got == c.before
}

func (o *overlap) say(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log = append(o.log, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

func (o *overlap) play() {
	roomy := func(name string, w quota.Window, c quota.Coverage) *quota.Charge {
		return &quota.Charge{Budget: name, Coverage: quota.NewCoverage(c), Limit: quota.MaxLimit / 4, Window: w}
	}
	o.charges = []*quota.Charge{
		roomy("day", quota.Sliding(24*time.Hour), quota.Coverage{}),
		roomy("search", quota.Sliding(24*time.Hour), quota.Coverage{Methods: []string{"search"}}),
		roomy("cron", quota.Daily(time.UTC), quota.Coverage{Measure: quota.Calls, Lanes: []string{"cron"}}),
	}[:1+o.draws.IntN(3)]
	processes, callers, batches := 1+o.draws.IntN(2), 1+o.draws.IntN(2), 10+o.draws.IntN(30)
	var all []*journal.Ledger
	var work sync.WaitGroup
	defer work.Wait() // a fault may have ended the test
	for host := range 1 + o.draws.IntN(3) {
		dir := filepath.Join(o.TempDir(), fmt.Sprint("host", host), "journal")
		for range processes {
			l := o.open(dir)
			all = append(all, l)
			for range callers {
				draws := rand.New(rand.NewPCG(o.draws.Uint64(), 0))
				work.Go(func() { o.work(l, draws, batches) })
			}
		}
	}
	go func() { work.Wait(); close(o.due) }()
	for range o.due {
		o.lose(o)
	}
	o.due = nil
	for range 2 { // the first may restore what another one then has heard of
		for _, l := range all {
			redistest.Await(o.T, "a call of each process", func() bool { return o.work(l, o.draws, 1) > 0 })
		}
	}
	o.check(all[0])
}

// open opens the ledger as a process of the host with a journal.
func (o *overlap) open(dir string) *journal.Ledger {
	var inner quota.Ledger
	var err error
	if o.isFile {
		inner, err = sqliteledger.Open(filepath.Join(o.folder, "ration.db"), nil)
	} else {
		inner, err = redisledger.Open(o.server.URL(), &redisledger.Options{Prefix: o.name})
	}
	must(o.T, err)
	host := filepath.Base(filepath.Dir(dir))
	l := journal.New(inner, dir, &journal.Options{Report: func(err error) { o.say("%s: %v", host, err) }})
	o.Cleanup(func() { _ = l.Close() })
	return l
}

// work makes batches of calls, and settles some. It returns how many calls were
// granted.
func (o *overlap) work(l *journal.Ledger, draws *rand.Rand, batches int) (granted int) {
	b := &quota.Batch{Account: account, Client: o.clients.Add(1), Seq: 1, History: 24 * time.Hour}
	var open []quota.Receipt
	for range batches {
		b.Seq += uint64(len(b.Requests))
		b.Requests = o.requests(draws)
		receipts := o.spend(l, b)
		granted += len(receipts)
		open = append(open, receipts...)
		for n := draws.IntN(3); o.settles && n > 0 && len(open) > 0; n-- {
			i := draws.IntN(len(open))
			o.settle(l, open[i], draws)
			open = append(open[:i], open[i+1:]...)
		}
		if draws.IntN(12) == 0 {
			select {
			case o.due <- true:
			default: // one is due
			}
		}
	}
	return granted
}

// spend returns the receipts of the calls of a batch that are granted.
func (o *overlap) spend(l *journal.Ledger, b *quota.Batch) (receipts []quota.Receipt) {
	answers, err := l.Spend(context.Background(), b)
	o.mu.Lock()
	defer o.mu.Unlock()
	isDoubt := errors.Is(err, quota.ErrInDoubt)
	switch {
	case isDoubt, isNotNow(err):
		for i := range b.Requests {
			mayBeCharged := isDoubt || errors.Is(err, quota.ErrLedgerBusy) // or withdrawn, which can stay charged
			o.doubts[quota.ID{Client: b.Client, Seq: b.Seq + uint64(i)}] = mayBeCharged
		}
	case err != nil:
		o.Errorf("client %d: %v", b.Client, err)
	}
	for i, a := range answers {
		switch {
		case errors.Is(a.Err, quota.ErrLedgerDown): // one connection after the other was ended
		case a.Err != nil:
			o.Errorf("client %d: %v", b.Client, a.Err)
		default:
			o.calls[a.Receipt.ID] = overlapCall{now: amounts{b.Requests[i].Units, 1}}
			receipts = append(receipts, a.Receipt)
		}
	}
	return receipts
}

// isNotNow reports whether a call was not granted because the ledger was lost
// again and again, or damaged, or because another process
// restored it.
func isNotNow(err error) bool {
	return errors.Is(err, quota.ErrLedgerLost) || errors.Is(err, quota.ErrLedgerConfig) || errors.Is(err, quota.ErrLedgerBusy)
}

func (o *overlap) requests(draws *rand.Rand) (requests []quota.Request) {
	for range 1 + draws.IntN(1+draws.IntN(100)) {
		r := quota.Request{Method: []string{"list", "search"}[draws.IntN(2)], Units: quota.Units(1 + draws.IntN(9)), Caller: quota.Caller{Lane: []string{"cron", "manual"}[draws.IntN(2)]}}
		for _, c := range o.charges {
			if c.Coverage.Covers(r.Method, r.Caller) {
				r.Charges = append(r.Charges, c)
			}
		}
		requests = append(requests, r)
	}
	return requests
}

// settle settles or refunds a call.
func (o *overlap) settle(l *journal.Ledger, r quota.Receipt, draws *rand.Rand) {
	to := amounts{quota.Units(draws.IntN(12)), 1}
	settle := func() error { return l.Settle(context.Background(), r, to.units) }
	if draws.IntN(3) == 0 {
		to = amounts{}
		settle = func() error { return l.Refund(context.Background(), r) }
	}
	err := settle()
	isFailure := err != nil && !errors.Is(err, quota.ErrStays)
	if isFailure && !isNotNow(err) {
		o.Errorf("settle %v: %v", r.ID, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[r.ID] = overlapCall{to, o.calls[r.ID].now, isFailure}
}

// loseKeys deletes one key of the game, or all.
func (o *overlap) loseKeys() {
	keys := o.server.Do(o.T, "keys", o.name+":*").([]any)
	if len(keys) == 0 {
		return
	}
	if o.draws.IntN(3) > 0 {
		i := o.draws.IntN(len(keys))
		keys = keys[i : i+1]
	}
	o.server.Do(o.T, append([]any{"del"}, keys...)...)
	o.say("deleted %q", keys)
}

// loseFile loses the file, by one of the faults that need no copy of it.
func (o *overlap) loseFile() {
	names := []string{"file deleted", "file and -wal deleted", "folder deleted", "file emptied", "damaged", "another file in its place"}
	name := names[o.draws.IntN(len(names))]
	o.say("%s: %v", name, sqliteFaults[name](o.folder, "")) // it may be lost already
}

// putBack copies all keys of the game, or puts the last copy in their place.
func (o *overlap) putBack() {
	if o.copied == nil || o.draws.IntN(3) == 0 {
		o.copied = o.server.Do(o.T, "eval", `local all = {}
			for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
				table.insert(all, key)
				table.insert(all, redis.call('DUMP', key))
			end
			return all`, 0, o.name+":*").([]any)
		o.say("copied %d keys", len(o.copied)/2)
		return
	}
	client := redis.NewClient(&redis.Options{Addr: o.server.Addr})
	defer client.Close()
	_, err := client.TxPipelined(o.Context(), func(tx redis.Pipeliner) error { // at once, as a server that starts with an older file
		tx.Do(o.Context(), "client", "kill", "type", "normal", "skipme", "yes")
		tx.Do(o.Context(), append([]any{"eval", `for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end
			for n = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[n], '0', ARGV[n + 1]) end
			return 'OK'`, 0, o.name + ":*"}, o.copied...)...)
		return nil
	})
	must(o.T, err)
	o.say("put back %d keys", len(o.copied)/2)
}

// check compares the log with what was granted.
func (o *overlap) check(l *journal.Ledger) {
	held, sum := map[quota.ID]amounts{}, quota.Units(0)
	for e, err := range l.Entries(context.Background(), quota.Query{Account: account}) {
		must(o.T, err)
		if _, isCall := o.calls[e.ID]; !isCall && !o.doubts[e.ID] && e.Units+quota.Units(e.Calls) > 0 {
			o.Errorf("%+v is of no call", e)
		}
		h := held[e.ID]
		held[e.ID] = amounts{h.units + e.Units, h.calls + quota.Units(e.Calls)}
		sum += e.Units
	}
	missing := 0
	for id, call := range o.calls {
		if got, isThere := held[id]; !isThere {
			missing++
		} else if !call.isRight(got) {
			o.Errorf("call %v counts for %+v; want %+v", id, got, call.now)
		}
	}
	if missing > 0 {
		o.Errorf("%d of %d calls are missing", missing, len(o.calls))
	}
	standings, err := l.Standings(context.Background(), account, "", o.charges)
	if err != nil || standings[0].Used != sum {
		o.Errorf("%+v, %v; want the %d units of all entries", standings, err, sum)
	}
}
