package ledgertest

import "github.com/ration-dev/ration/internal/engine"

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
	if tail := g.must(engine.Append{Count: 1, Reset: true, Any: true, Bump: true}); tail.At != now ||
		tail.Newest != now {
		g.Fatalf("%s; want it at the clock's %d", describe(tail), now)
	}
	if tail := g.must(engine.Append{Count: 1, Any: true}); tail.At != now+1 {
		g.Fatalf("%s; want it after the reset, at %d", describe(tail), now+1)
	}
}
