package ledgertest

import (
	"slices"
	"testing"

	"github.com/ration-dev/ration/quota/internal/engine"
)

// testCreation: the first append makes the log, with its epoch and position 1.
func testCreation(s *suite) {
	g := s.log("project")
	head := g.head()
	g.compare(&head, &engine.Tail{First: 1})
	tail := g.append(engine.Append{Count: 3, Adds: add(0, 5), Bump: true})
	g.compare(tail, &engine.Tail{
		Appended: true, At: start, Epoch: g.epoch, Position: 1, First: 1, Newest: start + 2, Gen: 1, Now: start,
		Totals: [engine.MaxTotals]int64{5},
	})
	// A second creator gets the log that there is, and appends nothing.
	again := s.log("project")
	tail = again.refused("there is a log", engine.Append{Any: true})
	if tail.Epoch != g.epoch || len(tail.Batches) != 1 || tail.Batches[0].At != start {
		g.Fatalf("%s; want the first batch", describe(tail))
	}
}

// testCreationUnderConditions: the conditions hold for a log that is about to
// be created, too: its generation and its totals are 0.
func testCreationUnderConditions(s *suite) {
	g := s.log("project")
	g.refused("generation", engine.Append{Gen: 1})
	g.refused("total", engine.Append{Conditions: most(-1, 0)})
	g.refused("too early", engine.Append{NotBefore: start + 1})
	g.refused("too late", engine.Append{NotAfter: start - 1, Any: true})
	if head := g.head(); head.Epoch != 0 {
		g.Fatalf("%s; want no log", describe(&head))
	}
	g.must(engine.Append{Conditions: most(0, 0, 127), NotBefore: start, NotAfter: start})
}

// testGeneration: only an append with the present generation lands, and one
// that bumps it ends all others.
func testGeneration(s *suite) {
	g := s.log("project")
	g.must(engine.Append{})
	g.refused("a later generation", engine.Append{Gen: 1})
	g.must(engine.Append{Bump: true})
	g.refused("an earlier generation", engine.Append{Gen: 0})
	if tail := g.must(engine.Append{Gen: 1}); tail.Gen != 1 {
		g.Fatalf("generation %d; want 1", tail.Gen)
	}
}

// testTotals: totals rise by what appends add, and by nothing else.
func testTotals(s *suite) {
	g := s.log("project")
	var want [engine.MaxTotals]int64
	for i := range 2 * engine.MaxTotals {
		index := uint8(i % engine.MaxTotals)
		g.refused("generation", engine.Append{Gen: 7, Adds: add(index, 100)})
		amount := int64(i + 1)
		tail := g.must(engine.Append{Adds: []engine.Total{{Index: index, Amount: amount}, {Index: 5, Amount: 1 << 40}}})
		want[index] += amount
		want[5] += 1 << 40
		if tail.Totals != want {
			g.Fatalf("after %d appends the totals are %v; want %v", i+1, tail.Totals, want)
		}
	}
	if head := g.head(); head.Totals != want {
		g.Fatalf("the totals are %v; want %v", head.Totals, want)
	}
	// A total may be named twice in one append.
	tail := g.must(engine.Append{Adds: append(add(9, 1), add(9, 2)...)})
	if got := tail.Totals[9] - want[9]; got != 3 {
		g.Fatalf("a total that rises by 1 and by 2 rises by %d", got)
	}
}

// testTotalConditions: the bound is on the sum of the named totals, inclusive.
func testTotalConditions(s *suite) {
	g := s.log("project")
	g.must(engine.Append{Adds: append(add(0, 10), add(127, 5)...)})
	g.refused("one total", engine.Append{Conditions: most(9, 0)})
	g.refused("a sum", engine.Append{Conditions: most(14, 0, 127)})
	g.refused("the second condition", engine.Append{Conditions: append(most(10, 0), most(4, 127)...)})
	g.refused("the first condition", engine.Append{Conditions: append(most(9, 0), most(5, 127)...)})
	g.must(engine.Append{Conditions: most(10, 0)})
	g.must(engine.Append{Conditions: most(15, 0, 1, 127)})
	g.must(engine.Append{Conditions: append(most(10, 0), most(5, 127)...)})
	g.must(engine.Append{Conditions: most(0)}) // no totals, so a sum of 0
	g.refused("a sum of 0", engine.Append{Conditions: most(-1)})
}

// testStepsOfConditions: the bound is that of the last step that has begun.
func testStepsOfConditions(s *suite) {
	g := s.log("project")
	g.must(engine.Append{Adds: add(3, 10)})
	steps := []engine.Step{{Most: 9}}
	for i := range int64(engine.MaxSteps - 1) {
		steps = append(steps, engine.Step{From: start + 10*i, Most: 9 + i%2})
	}
	conditions := []engine.Condition{{Totals: []uint8{3}, Steps: steps}}
	for at := start - 5; at < start+10*engine.MaxSteps; at += 5 {
		s.clock.set(at)
		i := min((at-start)/10, engine.MaxSteps-2)
		if at >= start && i%2 == 1 {
			g.must(engine.Append{Conditions: conditions})
		} else {
			g.refused("a step", engine.Append{Conditions: conditions})
		}
	}
	s.clock.set(start + 9)
	g.refused("a microsecond before a step", engine.Append{Conditions: conditions})
	s.clock.set(start + 10)
	g.must(engine.Append{Conditions: conditions})
}

// testTimes: NotBefore and NotAfter are inclusive, and 0 is any time.
func testTimes(s *suite) {
	g := s.log("project")
	g.must(engine.Append{})
	g.refused("too early", engine.Append{NotBefore: start + 1})
	g.refused("too late", engine.Append{NotAfter: start - 1})
	g.must(engine.Append{NotBefore: start, NotAfter: start})
	s.clock.set(start + 1)
	g.must(engine.Append{NotBefore: start + 1})
	g.refused("too late by now", engine.Append{NotAfter: start})
}

// testAny: Any replaces the generation and the totals, and nothing else.
func testAny(s *suite) {
	g := s.log("project")
	g.must(engine.Append{Adds: add(0, 10), Bump: true})
	g.must(engine.Append{Any: true, Gen: 9, Conditions: most(0, 0)})
	g.refused("too early", engine.Append{Any: true, NotBefore: start + 1})
	g.refused("too late", engine.Append{Any: true, NotAfter: start - 1})
	other := g.known
	other.Epoch++
	if tail := g.appendKnowing(other, engine.Append{Any: true}); tail.Appended || !tail.Diverged {
		g.Fatalf("%s; want that it has diverged", describe(tail))
	}
}

// testDivergence: a log has diverged by its epoch, its length or a tag.
func testDivergence(s *suite) {
	g := s.log("project")
	var tags []engine.Tag
	for range 6 {
		g.must(engine.Append{})
		tags = append(tags, g.known.Tag)
	}
	last, epoch := g.known, g.known.Epoch
	wrongTag := engine.Tag{0xff}
	for _, test := range []struct {
		name     string
		known    engine.Known
		diverged bool
	}{
		{"the newest batch", last, false},
		{"an older batch", engine.Known{Epoch: epoch, After: 3, Tag: tags[2]}, false},
		{"no batch", engine.Known{Epoch: epoch}, false},
		{"no batch has no tag", engine.Known{Epoch: epoch, Tag: wrongTag}, false},
		{"another epoch", engine.Known{Epoch: epoch + 1, After: last.After, Tag: last.Tag}, true},
		{"another epoch and no batch", engine.Known{Epoch: epoch + 1}, true},
		{"a log that is shorter", engine.Known{Epoch: epoch, After: last.After + 1, Tag: last.Tag}, true},
		{"another tag", engine.Known{Epoch: epoch, After: last.After, Tag: wrongTag}, true},
		{"the tag of another batch", engine.Known{Epoch: epoch, After: 3, Tag: tags[3]}, true},
	} {
		s.t.Run(test.name, func(t *testing.T) {
			g := *g
			g.suite = s.on(t)
			before := g.head()
			tail := g.read(test.known, 0)
			if tail.Diverged != test.diverged || tail.Epoch != epoch || tail.Position != before.Position {
				t.Errorf("read: %s; want diverged %t", describe(tail), test.diverged)
			}
			tail = g.appendKnowing(test.known, engine.Append{Gen: 1}) // refused if it has not diverged
			before.Diverged, before.Now = test.diverged, start
			before.Batches = tail.Batches
			g.compare(tail, &before)
			tail = g.appendKnowing(test.known, engine.Append{Any: true})
			if tail.Diverged != test.diverged || tail.Appended == test.diverged {
				t.Errorf("append of any: %s; want diverged %t", describe(tail), test.diverged)
			}
		})
	}
	// The tag of a batch that was trimmed is not compared.
	newest := g.read(engine.Known{}, 0).Batches
	g.known = engine.Known{Epoch: epoch, After: newest[len(newest)-1].Position, Tag: newest[len(newest)-1].Tag()}
	g.must(engine.Append{Trim: 3})
	tail := g.read(engine.Known{Epoch: epoch, After: 3, Tag: wrongTag}, 0)
	if tail.Diverged || tail.Batches[0].Position != 4 {
		g.Errorf("%s; want the batches from 4 on", describe(tail))
	}
	if tail := g.read(engine.Known{Epoch: epoch, After: 4, Tag: wrongTag}, 0); !tail.Diverged {
		g.Errorf("%s; want that it has diverged", describe(tail))
	}
}

// testUnknownLog: a caller that knows a log which does not exist any more is
// told that it has diverged, and creates nothing.
func testUnknownLog(s *suite) {
	g := s.log("project")
	known := engine.Known{Epoch: 7, After: 3, Tag: engine.Tag{1}}
	tail := g.appendKnowing(known, engine.Append{Any: true})
	g.compare(tail, &engine.Tail{Diverged: true, First: 1, Now: start})
	g.compare(g.read(known, 0), &engine.Tail{Diverged: true, First: 1, Now: start})
	if head := g.head(); head.Epoch != 0 {
		g.Errorf("%s; want no log", describe(&head))
	}
}

// testMalformed: what engine.Append.Check refuses is an error, and appends
// nothing.
func testMalformed(s *suite) {
	g := s.log("project")
	g.must(engine.Append{})
	before := g.head()
	valid := engine.Append{Known: g.known, NewEpoch: 1, Data: g.seq.data(0), Count: 1}
	for i, spoil := range []func(a *engine.Append){
		func(a *engine.Append) { a.Count = -1 },
		func(a *engine.Append) {
			a.Conditions = []engine.Condition{{Totals: []uint8{engine.MaxTotals}, Steps: []engine.Step{{}}}}
		},
		func(a *engine.Append) { a.Data = a.Data[:engine.TagSize-1] },
		func(a *engine.Append) { a.NewEpoch = 0 },
		func(a *engine.Append) { a.Adds = add(engine.MaxTotals, 1) },
		func(a *engine.Append) { a.Adds = add(0, -1) },
		func(a *engine.Append) { a.Conditions = []engine.Condition{{Totals: []uint8{0}}} },
	} {
		a := valid
		spoil(&a)
		if tail, err := g.ledger.Append(g.Context(), g.account, &a); err == nil {
			g.Errorf("malformed append %d: %s; want an error", i, describe(tail))
		}
	}
	if tail, err := g.ledger.Append(g.Context(), "", &valid); err == nil {
		g.Errorf("no account: %s; want an error", describe(tail))
	}
	g.sameHead(before)
}

// testReset: a reset begins the timestamps at the ledger's clock again.
func testReset(s *suite) {
	g := s.log("project")
	s.clock.step(24 * hour)
	ahead := g.must(engine.Append{Count: 2})
	s.clock.step(-24 * hour)
	now := s.clock.now().UnixMicro()
	if tail := g.must(engine.Append{Count: 1}); tail.At != ahead.Newest+1 {
		g.Fatalf("%s; want it after the newest one, at %d", describe(tail), ahead.Newest+1)
	}
	if tail := g.must(engine.Append{Count: 1, Reset: true, Any: true, Bump: true}); tail.At != now || tail.Newest != now {
		g.Fatalf("%s; want it at the clock's %d", describe(tail), now)
	}
	if tail := g.must(engine.Append{Count: 1, Any: true}); tail.At != now+1 {
		g.Fatalf("%s; want it after the reset, at %d", describe(tail), now+1)
	}
}

// testTimestamps: timestamps increase strictly, whatever the clock does.
func testTimestamps(s *suite) {
	g := s.log("project")
	newest := int64(0)
	steps := []int64{0, 0, 1, 2, -1, -hour, -24 * hour, 0, 365 * 24 * hour, 0, -366 * 24 * hour, 1, 10 * 365 * 24 * hour}
	for i, step := range steps {
		s.clock.step(step)
		now := s.clock.now().UnixMicro()
		count := 1 + i%4
		tail := g.must(engine.Append{Count: count})
		want := max(now, newest+1)
		newest = want + int64(count) - 1
		if tail.At != want || tail.Newest != newest || tail.Now != now {
			g.Fatalf("%s; want it at %d, newest %d, now %d", describe(tail), want, newest, now)
		}
	}
	var got []int64
	for _, b := range g.all(0) {
		got = append(got, b.At)
	}
	if len(got) != len(steps) || !slices.IsSorted(got) {
		g.Errorf("timestamps %v; want %d that increase", got, len(steps))
	}
}
