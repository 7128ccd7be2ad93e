package redisledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
)

// open returns a ledger that is closed when the test ends. It waits a minute
// for answers, so that a busy machine does not change what a test sees.
func open(t testing.TB, url string, o *Options) *Ledger {
	t.Helper()
	l, err := Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	l.patience = time.Minute
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// impatient returns a ledger that gives up after a second, as users have it.
func impatient(t testing.TB, url string, o *Options) *Ledger {
	l := open(t, url, o)
	l.patience = patience
	return l
}

// batch returns a batch of a size with the tag of a number.
func batch(number, size int) []byte {
	data := make([]byte, size)
	binary.BigEndian.PutUint32(data[6:], uint32(number))
	return data
}

func tagOf(data []byte) (tag engine.Tag) {
	copy(tag[:], data)
	return tag
}

// log is what a test knows of a log.
type log struct {
	testing.TB
	*Ledger
	account string
	known   engine.Known
	number  int // of the last batch
}

func newLog(t testing.TB, l *Ledger, account string) *log {
	return &log{TB: t, Ledger: l, account: account}
}

// next returns an append of one more batch, which is appended unless the log
// has diverged.
func (l *log) next() *engine.Append {
	l.number++
	return &engine.Append{Known: l.known, NewEpoch: 7, Any: true, Data: batch(l.number, 45), Count: 1}
}

// append appends a and requires that it succeeds.
func (l *log) append(a *engine.Append) *engine.Tail {
	l.Helper()
	tail, err := l.Append(context.Background(), l.account, a)
	if err != nil || !tail.Appended {
		l.Fatalf("%+v, %v; want that it is appended", tail, err)
	}
	l.known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: tagOf(a.Data)}
	return tail
}

// read reads what is after a position.
func (l *log) read(after uint64) *engine.Tail {
	l.Helper()
	known := engine.Known{Epoch: l.known.Epoch, After: after}
	if after == l.known.After {
		known = l.known
	}
	tail, err := l.Read(context.Background(), l.account, &engine.Read{Known: known})
	if err != nil {
		l.Fatal(err)
	}
	return tail
}

// all returns the numbers of all batches of the log.
func (l *log) all() (numbers []int) {
	l.Helper()
	tail, err := l.Read(context.Background(), l.account, &engine.Read{})
	for ; err == nil; tail, err = l.Read(context.Background(), l.account, following(tail)) {
		for _, b := range tail.Batches {
			numbers = append(numbers, int(binary.BigEndian.Uint32(b.Data[6:])))
		}
		if !tail.More {
			return numbers
		}
	}
	l.Fatal(err)
	return nil
}

// following returns the read of the page after tail.
func following(tail *engine.Tail) *engine.Read {
	last := tail.Batches[len(tail.Batches)-1]
	return &engine.Read{Known: engine.Known{Epoch: tail.Epoch, After: last.Position, Tag: last.Tag()}}
}

func TestAppendedBatchesAreReadInOrder(t *testing.T) {
	l := newLog(t, open(t, servers.StartRedis(t).URL(), nil), "a")
	var at int64
	for i := range uint64(300) {
		tail := l.append(l.next())
		if tail.Position != i+1 || tail.At <= at || tail.At != tail.Newest || len(tail.Batches) > 0 {
			t.Fatalf("%+v; want position %d, after %d", tail, i+1, at)
		}
		at = tail.At
	}
	want := make([]int, 300)
	for i := range want {
		want[i] = i + 1
	}
	if got := l.all(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	stale := &engine.Append{Known: engine.Known{Epoch: 7, After: 100, Tag: tagOf(batch(100, 45))}, NewEpoch: 8,
		Any:  true,
		Data: batch(301, 45), Count: 1}
	tail, err := l.Append(t.Context(), "a", stale)
	if err != nil || !tail.Appended || len(tail.Batches) != 200 || tail.Batches[0].Position != 101 ||
		tail.Batches[199].At != at {
		t.Errorf("%+v, %v; want 200 batches, without the appended one", tail, err)
	}
}

// TestAnUnmetConditionChangesNothing: an append that does not meet its
// conditions changes nothing.
func TestAnUnmetConditionChangesNothing(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	l := newLog(t, open(t, servers.StartRedis(t).URL(), &Options{Now: func() time.Time { return now }}), "a")
	a := l.next()
	a.Adds = []engine.Total{{Index: 0, Amount: 100}, {Index: 127, Amount: 1 << 50}, {Index: 0, Amount: 1}}
	a.Bump, a.Count = true, 5
	tail := l.append(a)
	if tail.Totals[0] != 101 || tail.Totals[127] != 1<<50 || tail.Gen != 1 || tail.Newest != now.UnixMicro()+4 {
		t.Fatalf("%+v", tail)
	}
	step := func(from int64, most int64) engine.Step { return engine.Step{From: from, Most: most} }
	later := now.UnixMicro() + 1
	for name, c := range map[string]struct {
		change func(a *engine.Append)
		want   bool
	}{
		"met":                {func(a *engine.Append) {}, true},
		"another generation": {func(a *engine.Append) { a.Gen = 0 }, false},
		"any generation":     {func(a *engine.Append) { a.Gen, a.Any = 0, true }, true},
		"too early":          {func(a *engine.Append) { a.NotBefore = later }, false},
		"too late":           {func(a *engine.Append) { a.NotAfter = now.UnixMicro() - 1 }, false},
		"in time": {func(a *engine.Append) { a.NotBefore, a.NotAfter = now.UnixMicro(), now.UnixMicro() },
			true},
		"a total at most": {func(a *engine.Append) { a.Conditions[0].Steps = []engine.Step{step(0, 101)} }, true},
		"a total above":   {func(a *engine.Append) { a.Conditions[0].Steps = []engine.Step{step(0, 100)} }, false},
		"a later step": {func(a *engine.Append) {
			a.Conditions[0].Steps = []engine.Step{step(0, 101),
				step(later, 0)}
		}, true},
		"a step in force": {func(a *engine.Append) {
			a.Conditions[0].Steps = []engine.Step{step(0, 101),
				step(1, 0)}
		}, false},
		"the second is unmet": {func(a *engine.Append) { a.Conditions = append(a.Conditions, condition(-1, 3)) },
			false},
		"the sum of both":  {func(a *engine.Append) { a.Conditions[0] = condition(1<<50+101, 0, 127) }, true},
		"the sum is above": {func(a *engine.Append) { a.Conditions[0] = condition(1<<50+100, 0, 127) }, false},
	} {
		a := l.next()
		a.Any, a.Gen, a.Conditions = false, 1, []engine.Condition{condition(1<<62, 0)}
		c.change(a)
		before := l.read(l.known.After)
		tail, err := l.Append(t.Context(), "a", a)
		if err != nil || tail.Appended != c.want || tail.Diverged {
			t.Errorf("%s: %+v, %v", name, tail, err)
		}
		if tail.Appended {
			l.known.After, l.known.Tag = tail.Position, tagOf(a.Data)
		} else if after := l.read(l.known.After); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: %v; want %v", name, after, before)
		}
	}
	for _, add := range []engine.Total{{Index: 127, Amount: 1<<53 - 1<<50}, {Index: 3, Amount: 1 << 53}} {
		a := l.next()
		a.Adds = []engine.Total{{Index: 1, Amount: 5}, add}
		if _, err := l.Append(t.Context(), "a", a); !errors.Is(err, engine.ErrLedgerConfig) ||
			l.read(l.known.After).Totals[1] != 0 {
			t.Errorf("%v; want that a total beyond 2^53 is refused", err)
		}
	}
}

func condition(most int64, totals ...uint8) engine.Condition {
	return engine.Condition{Totals: totals, Steps: []engine.Step{{Most: most}}}
}

// TestNothingIsAppendedToAnotherLog: nothing is appended to another log than
// the caller knows.
func TestNothingIsAppendedToAnotherLog(t *testing.T) {
	server := servers.StartRedis(t)
	l := newLog(t, open(t, server.URL(), nil), "a")
	for range 3 {
		l.append(l.next())
	}
	tag := func(number int) engine.Tag { return tagOf(batch(number, 45)) }
	for name, c := range map[string]struct {
		known engine.Known
		want  bool
	}{
		"the newest":             {engine.Known{Epoch: 7, After: 3, Tag: tag(3)}, false},
		"an earlier one":         {engine.Known{Epoch: 7, After: 2, Tag: tag(2)}, false},
		"before the first":       {engine.Known{Epoch: 7}, false},
		"nothing":                {engine.Known{}, false},
		"another epoch":          {engine.Known{Epoch: 8, After: 3, Tag: tag(3)}, true},
		"beyond the newest":      {engine.Known{Epoch: 7, After: 4, Tag: tag(4)}, true},
		"another newest batch":   {engine.Known{Epoch: 7, After: 3, Tag: tag(2)}, true},
		"another earlier batch":  {engine.Known{Epoch: 7, After: 1, Tag: tag(3)}, true},
		"another epoch, nothing": {engine.Known{Epoch: 8}, true},
	} {
		tail, err := l.Read(t.Context(), "a", &engine.Read{Known: c.known})
		if err != nil || tail.Diverged != c.want || c.want && len(tail.Batches) > 0 || tail.Position != 3 {
			t.Errorf("%s: read %+v, %v", name, tail, err)
		}
		if !c.want && c.known.Epoch != 0 {
			continue
		}
		a := &engine.Append{Known: c.known, NewEpoch: 9, Any: true, Data: batch(9, 45), Count: 1}
		if tail, err := l.Append(t.Context(), "a", a); err != nil || tail.Appended || tail.Diverged != c.want {
			t.Errorf("%s: append %+v, %v", name, tail, err)
		}
	}
	server.Do(t, "del", "ration:{a}:head")
	tail, err := l.Append(t.Context(), "a", l.next())
	if err != nil || tail.Appended || !tail.Diverged || tail.Epoch != 0 || tail.Position != 0 {
		t.Errorf("%+v, %v; want that a lost head has diverged", tail, err)
	}
	l.known = engine.Known{}
	l.append(l.next())
	if got := l.all(); !slices.Equal(got, []int{5}) {
		t.Errorf("%v; want only the batch of the new log", got)
	}
	server.Do(t, "del", "ration:{a}:batches")
	if tail := l.read(1); !tail.Diverged {
		t.Errorf("%+v; want that a lost list has diverged", tail)
	}
}

func TestTrimmedBatchesAreGone(t *testing.T) {
	l := newLog(t, open(t, servers.StartRedis(t).URL(), nil), "a")
	for range 9 {
		l.append(l.next())
	}
	a := l.next()
	a.Trim = 4
	if tail := l.append(a); tail.First != 5 || tail.Position != 10 {
		t.Errorf("%+v", tail)
	}
	if tail := l.read(2); tail.Diverged || len(tail.Batches) != 6 || tail.Batches[0].Position != 5 {
		t.Errorf("%+v; want that a trimmed tag is not compared, and positions 5 to 10", tail)
	}
	a = l.next()
	a.Trim = 2 // trimmed before
	l.append(a)
	a = l.next()
	a.Known, a.Trim = engine.Known{Epoch: 7, After: 5, Tag: tagOf(batch(5, 45))}, 1<<40
	if tail := l.append(a); len(tail.Batches) != 6 || tail.Batches[0].Position != 6 || tail.First != 13 {
		t.Errorf("%+v; want positions 6 to 11, and an empty log", tail)
	}
	l.append(l.next())
	if got := l.all(); !slices.Equal(got, []int{13}) {
		t.Errorf("%v; want the batch that was appended since", got)
	}
}

// TestPages: pages have as many batches as fit, and at least one.
func TestPages(t *testing.T) {
	l := newLog(t, open(t, servers.StartRedis(t).URL(), nil), "a")
	for i := range 500 {
		a := l.next()
		a.Data = batch(i+1, 20+i%400)
		l.append(a)
	}
	for _, bytes := range []int{1, 300, 419, 420, 2000, 50000, 0} {
		after, rounds, known := uint64(0), 0, engine.Known{}
		for more := true; more; rounds++ {
			tail, err := l.Read(t.Context(), "a", &engine.Read{Known: known, Bytes: bytes})
			if err != nil || len(tail.Batches) == 0 || rounds > 500 {
				t.Fatalf("%d bytes: %+v, %v", bytes, tail, err)
			}
			size := 0
			for _, b := range tail.Batches {
				if after++; b.Position != after || len(b.Data) != 20+int(after-1)%400 {
					t.Fatalf("%d bytes: position %d of %d bytes; want %d", bytes, b.Position, len(b.Data), after)
				}
				size += len(b.Data)
			}
			if fits := bytes == 0 || size <= bytes || len(tail.Batches) == 1; !fits {
				t.Errorf("%d bytes in a page of %d", size, bytes)
			}
			if next := 20 + int(after)%400; tail.More && size+next <= bytes {
				t.Errorf("a page of %d bytes has %d, and the next batch has %d", bytes, size, next)
			}
			more, known = tail.More, following(tail).Known
		}
		if after != 500 {
			t.Errorf("%d bytes: %d batches", bytes, after)
		}
	}
}

// TestStampsRise: a clock that goes back, and batches of several timestamps, do
// not give one timestamp twice.
func TestStampsRise(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	l := newLog(t, open(t, servers.StartRedis(t).URL(), &Options{Now: func() time.Time { return now }}), "a")
	var newest int64
	for i := range 20 {
		a := l.next()
		a.Count = 1 + i
		tail := l.append(a)
		if tail.At <= newest || tail.Newest != tail.At+int64(i) || tail.Now != now.UnixMicro() {
			t.Errorf("%+v; want timestamps after %d", tail, newest)
		}
		newest = tail.Newest
		now = now.Add(time.Duration(i-10) * time.Second)
	}
}

// TestAnyBytesNameOneAccount: names of any bytes are one account each, and do
// not leave their hash tag.
func TestAnyBytesNameOneAccount(t *testing.T) {
	server := servers.StartRedis(t)
	l := open(t, server.URL(), &Options{Prefix: "p{q}*"})
	names := []string{"a", "a}b{c", "{}", "", "\x00\xff\n", "100% *?[x]", "ünï", "a:head", "}:head", "a/b",
		`"]]..redis.call("FLUSHALL")`}
	for i := range 1500 {
		names = append(names, fmt.Sprint("many", i))
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	for i, name := range names {
		log := newLog(t, l, name)
		log.number = i
		log.append(log.next())
	}
	for i, name := range names[:20] {
		if got := newLog(t, l, name).all(); !slices.Equal(got, []int{i + 1}) {
			t.Errorf("%q: %v", name, got)
		}
	}
	server.Do(t, "set", "p%7Bq%7D%2A:{string}:head", "of another program")
	newLog(t, open(t, server.URL(), nil), "another prefix").append(newLog(t, l, "").next())
	var got []string
	for name, err := range l.Accounts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("%d accounts; want %d", len(got), len(names))
	}
}
