package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
)

var minute = quota.Sliding(time.Minute)

func allOrNothing(w *world) {
	wide, narrow := charge("wide", 100, minute), charge("narrow", 10, minute, methods("m"))
	w.spend(8, wide, narrow)
	w.clock.Add(time.Second)
	w.refuse(3, "narrow", 59*time.Second, 2, wide, narrow)
	w.used(8, wide, narrow)
	w.spend(2, wide, narrow)
	w.used(10, wide, narrow)
	if n := len(w.log()); n != 2 {
		w.Fatalf("%d entries in the log; want one a grant, 2", n)
	}
}

func refusalWritesNothing(w *world) {
	day, counter := charge("day", 1, minute), charge("estimate", 1, quota.Counter(time.Minute))
	w.spend(1, day, counter)
	for range 50 {
		w.clock.Add(time.Second)
		w.batch(request("m", 1, day, counter))
	}
	w.used(1, day)
	if n := len(w.log()); n != 1 {
		w.Fatalf("%d entries after one grant and 50 refusals; want 1", n)
	}
	w.clock.Add(10 * time.Second)
	w.spend(1, day)
}

func everyCoverageCounts(w *world) {
	// A process that does not know the search budget still spends it.
	all, search := charge("all", 100, minute), charge("search", 5, minute, methods("search"))
	w.grant(request("search", 1, all, search))
	w.grant(request("search", 3, all))
	w.grant(request("search", 1))
	w.used(5, all, search)
	w.refused(w.batch(request("search", 1, all, search))[0], "search", time.Minute, 0)
}

func callsMeasure(w *world) {
	calls := charge("calls", 3, minute, counted)
	w.spend(100, calls)
	w.spend(1, calls)
	r := w.spend(7, calls)
	w.refuse(1, "calls", time.Minute, 0, calls)
	w.settle(r, 0) // a call that cost nothing was a call
	w.used(3, calls)
	w.refund(r) // one that was not sent was none
	w.used(2, calls)
	w.spend(9, calls)
}

func uncoveredIsRecorded(w *world) {
	w.grant(quota.Request{Method: "free", Units: 4, Caller: quota.Caller{Region: "IN"}})
	isFree := func(e quota.Entry) bool { return e.Method == "free" && e.Caller.Region == "IN" && e.Units == 4 }
	log := w.log()
	if len(log) != 1 || !isFree(log[0]) || log[0].Calls != 1 {
		w.Fatalf("log %+v; want the one uncovered call", log)
	}
}

func costsOutOfRange(w *world) {
	day := charge("day", quota.MaxLimit, minute)
	for _, units := range []quota.Units{0, -1, -100, quota.MaxUnits + 1, 1 << 62, -1 << 63} {
		answer := w.batch(request("m", units, day))[0]
		if !errors.Is(answer.Err, quota.ErrBadCall) || errors.Is(answer.Err, quota.ErrRefused) {
			w.Errorf("a call of %d units: %v; want ErrBadCall", units, answer.Err)
		}
	}
	_, err := w.Spend(w.ctx, &quota.Batch{Requests: []quota.Request{request("m", 1)}})
	w.fails(err, quota.ErrBadCall, "a batch without an account")
	long := strings.Repeat("x", quota.MaxLabel+1)
	for _, caller := range []quota.Caller{{}, {Lane: long}, {Job: long}, {Region: long}} {
		labeled := request("m", 1, day)
		if labeled.Caller = caller; caller == (quota.Caller{}) {
			labeled.Method = long
		}
		w.fails(w.batch(labeled)[0].Err, quota.ErrBadCall, fmt.Sprintf("a label of %d bytes, caller %+v", len(long), caller))
	}
	w.used(0, day)
	w.spend(quota.MaxUnits, day)
	w.used(quota.MaxUnits, day)
}

func neverFits(w *world) {
	wide, narrow := charge("wide", 100, minute), charge("narrow", 10, minute)
	answer := w.batch(request("m", 11, wide, narrow))[0]
	never, ok := errors.AsType[*quota.NeverFitsError](answer.Err)
	saysLimit := ok && never.Budget == "narrow" && never.Limit == 10
	if !saysLimit || never.Needed != 11 || errors.Is(answer.Err, quota.ErrRefused) {
		w.Fatalf("11 of 10: %v; want a NeverFitsError of narrow", answer.Err)
	}
	w.used(0, wide, narrow)
	w.spend(10, wide, narrow)
}

func force(w *world) {
	day := charge("day", 10, minute)
	w.spend(8, day)
	w.grant(forced(request("m", 7, day)))
	w.used(15, day)
	if refused := w.refused(w.batch(request("m", 1, day))[0], "day", time.Minute, 0); refused.Used != 15 {
		w.Fatalf("a refusal says that %d are used; want 15, above the limit", refused.Used)
	}
	w.grant(forced(request("m", 0, day)))
	w.used(15, day)
}

// noCall records notes and corrections, which count units but no calls.
func noCall(w *world) {
	day, search := charge("day", 20, minute), charge("search", 20, minute, methods("search"))
	calls := charge("calls", 3, minute, counted)
	note := func(method string, units quota.Units, charges ...*quota.Charge) quota.Request {
		return entered(request(method, units, charges...), quota.EntryNote, 0)
	}
	w.spend(4, day, calls)
	w.clock.Add(time.Second)
	w.grant(note("cooldown.clear", 0, day, calls))
	w.used(4, day)
	w.used(1, calls)
	batch := &quota.Batch{Account: account, Client: quota.NewClient(), Seq: 1,
		Requests: []quota.Request{note("search", 9, day, calls, search), request("search", 7, day, calls, search)}}
	for range 2 { // sent again it is entered once
		w.granted(batch)
		w.used(20, day)
		w.used(16, search)
		w.used(2, calls, charge("later", 3, minute, counted, methods("m", "search", "cooldown.clear")))
	}
	w.refuse(5, "day", time.Minute+µs, 0, day) // the note is stamped first
	w.refuse(4, "day", 59*time.Second, 0, day)
	excess := w.grant(note("m", 5, day))
	w.used(25, day)
	w.refund(excess) // as for a caller that left
	w.used(20, day)
	for i, e := range w.log() {
		want := []quota.Entry{{Units: 4, Calls: 1}, {}, {Units: 9}, {Units: 7, Calls: 1}, {}}[i]
		if e.Units != want.Units || e.Calls != want.Calls {
			w.Errorf("entry %d is %+v; want %d units and %d calls", i, e, want.Units, want.Calls)
		}
	}
	asked := note("m", 1, day)
	asked.Force = false
	w.fails(w.batch(asked)[0].Err, quota.ErrBadCall, "no call, and not forced")
	w.clock.Add(time.Minute + time.Second)
	w.used(0, day, search, calls)
}

func accountsAndKeysApart(w *world) {
	day := charge("day", 10, minute)
	spend := func(account, key string) error {
		return w.ask(&quota.Batch{Account: account, Key: key, Requests: []quota.Request{request("m", 10, day)}})[0].Err
	}
	for _, name := range [][2]string{{account, ""}, {"other", ""}, {account, "203.0.113.9"}, {account, "203.0.113.10"}, {"other", "203.0.113.9"}} {
		if err := spend(name[0], name[1]); err != nil {
			w.Fatalf("%q: %v; want a log of its own", name, err)
		}
		w.fails(spend(name[0], name[1]), quota.ErrRefused, fmt.Sprintf("%q a second time", name))
	}
	if n := len(w.log()); n != 1 {
		w.Fatalf("%d entries in the account's own log; want 1", n)
	}
}

func awkwardNames(w *world) {
	names := []string{"a}b{c", "{x}", `"]]..redis.call("FLUSHALL")`, "nul\x00byte", "new\nline", "snow☃", "' OR 1=1 --", "a:b", "%7B", "-", "\xff\xfe", strings.Repeat("x", quota.MaxLabel)}
	for _, name := range names {
		day := charge(name, 3, minute, func(c *quota.Coverage) { c.Methods, c.Regions = []string{name}, []string{name} })
		r := request(name, 2, day)
		r.Caller = quota.Caller{Lane: name, Job: name, Region: name}
		for i, want := range []bool{true, false} {
			answers, err := w.Spend(w.ctx, &quota.Batch{Account: name, Key: "", Requests: []quota.Request{r}})
			if err != nil {
				w.Fatalf("%q: %v", name, err)
			}
			if granted := answers[0].Err == nil; granted != want {
				w.Fatalf("%q, spend %d: %v", name, i, answers[0].Err)
			}
		}
		for e, err := range w.Entries(w.ctx, quota.Query{Account: name}) {
			if err != nil || e.Method != name || e.Caller != r.Caller {
				w.Fatalf("%q: entry %+v, %v", name, e, err)
			}
		}
		if err := w.SetCooldown(w.ctx, quota.Cooldown{Account: name, Budget: name, Until: noon.Add(time.Hour), Reason: name}); err != nil {
			w.Fatalf("%q: cooldown: %v", name, err)
		}
	}
}

func batchInOrder(w *world) {
	day := charge("day", 10, minute)
	answers := w.batch(request("m", 6, day), request("m", 6, day), request("m", 4, day), request("m", 1, day))
	for i, granted := range []bool{true, false, true, false} {
		if (answers[i].Err == nil) != granted {
			w.Fatalf("request %d: %v; want granted %t", i, answers[i].Err, granted)
		}
	}
	w.used(10, day)
	first, third := answers[0].Receipt, answers[2].Receipt
	isOfOneClient := first.ID.Client != 0 && first.ID.Client == third.ID.Client
	if !isOfOneClient || first.ID == third.ID || !third.At.After(first.At) {
		w.Fatalf("receipts %+v and %+v; want later stamps and ids of their own", first, third)
	}
}

func batchResent(w *world) {
	day := charge("day", 1000, minute)
	batch := &quota.Batch{Account: account, Client: quota.NewClient(), Seq: 7, Requests: []quota.Request{request("m", 100, day), request("m", 200, day)}}
	first := w.ask(batch)
	for range 3 {
		w.clock.Add(time.Second)
		again := w.ask(batch)
		for i := range again {
			if again[i].Err != nil || again[i].Receipt != first[i].Receipt || again[i].Receipt.ID != (quota.ID{Client: batch.Client, Seq: 7 + uint64(i)}) {
				w.Fatalf("resent: %+v; want the first answer, %+v", again[i], first[i])
			}
		}
		w.used(300, day)
	}
	batch.Seq = 9
	w.ask(batch)
	w.used(600, day)
	other := *batch
	other.Client = quota.NewClient()
	w.ask(&other)
	w.used(900, day)
}

// onlyBatchOfAClient: a client whose only batch was granted gets an error for
// another one, whatever that asks for; one that was refused stands for nothing.
func onlyBatchOfAClient(w *world) {
	day := charge("day", 100, minute)
	batch := quota.Batch{Account: account, Client: quota.NewClient(), Seq: 7, Once: true}
	spend := func(seq uint64, units quota.Units) ([]quota.Answer, error) {
		again := batch
		again.Seq, again.Requests = seq, []quota.Request{request("m", units, day)}
		return w.Spend(w.ctx, &again)
	}
	w.spend(60, day)
	if answers, err := spend(9, 50); err != nil || !errors.Is(answers[0].Err, quota.ErrRefused) {
		w.Fatal(answers, err)
	}
	if answers, err := spend(7, 40); err != nil || answers[0].Err != nil {
		w.Fatal(answers, err)
	}
	for range 2 { // also while the budget is full, and refuses others
		for _, seq := range []uint64{1, 6, 8, 9, 1<<31 - 1} {
			if answers, err := spend(seq, 40); !errors.Is(err, quota.ErrReused) {
				w.Errorf("batch %d: %+v, %v; want that the client has another", seq, answers, err)
			}
		}
		w.refuse(1, "day", minute.Length(), 0, day)
	}
	if answers, err := spend(7, 40); err != nil || answers[0].Err != nil {
		w.Error(answers, err)
	}
	w.used(100, day)
}

// batchResentWhileFull: the refusals of others since do not refuse a batch that
// was granted.
func batchResentWhileFull(w *world) {
	day := charge("day", 1, minute)
	batch := &quota.Batch{Account: account, Client: quota.NewClient(), Seq: 1, Requests: []quota.Request{request("m", 1, day)}}
	first := w.granted(batch)
	for refusals := range 5 { // several handles take turns
		for range 1 + refusals {
			w.refuse(1, "day", minute.Length(), 0, day)
		}
		if again := w.granted(batch); again[0].Receipt != first[0].Receipt {
			w.Fatalf("resent: %+v; want the first answer, %+v", again, first)
		}
	}
}

func batchResentRefusal(w *world) {
	day := charge("day", 10, minute)
	batch := &quota.Batch{Account: account, Client: quota.NewClient(), Seq: 1,
		Requests: []quota.Request{request("m", 8, day), request("m", 8, day)}}
	for _, advance := range []time.Duration{0, time.Second} {
		w.clock.Add(advance)
		answers := w.ask(batch)
		if answers[0].Err != nil || !errors.Is(answers[1].Err, quota.ErrRefused) {
			w.Fatalf("%+v; want a grant and a refusal", answers)
		}
		w.used(8, day)
	}
	w.clock.Add(time.Minute)
	answers := w.granted(batch) // the old grant, and the refused request now
	w.used(8, day)
	if again := w.ask(batch); again[1].Err != nil || again[1].Receipt != answers[1].Receipt {
		w.Fatalf("%+v; want the later grant remembered too, %+v", again, answers)
	}
	w.used(8, day)
}

// concurrentSpends spends 320 units by list and 3200 by search on budgets of
// 500 in all and 300 for searches. Calls of one unit use what is left.
func concurrentSpends(w *world) {
	day, search := charge("day", 500, minute), charge("search", 300, minute, methods("search"))
	var mu sync.Mutex
	granted := map[string]quota.Units{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for j := range 40 {
				r := request("list", 1, day)
				if j%2 == 0 {
					r = request("search", 10, day, search)
				}
				answers, err := w.Spend(w.ctx, &quota.Batch{Account: account, Requests: []quota.Request{r}})
				if err != nil {
					w.Errorf("spend: %v", err)
					return
				}
				if answers[0].Err == nil {
					mu.Lock()
					granted[r.Method] += r.Units
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if granted["search"] > 300 || granted["search"]+granted["list"] != 500 {
		w.Fatalf("granted %v; want exactly 500 in all, at most 300 by search", granted)
	}
	w.used(500, day)
	w.used(granted["search"], search)
}
