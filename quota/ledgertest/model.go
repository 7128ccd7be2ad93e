package ledgertest

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/engine"
)

// model is a log in plain terms: all batches that were ever appended, and what
// the comment of engine.Ledger says of them.
type model struct {
	*log
	draw    *rapid.T
	batches []engine.Batch // the first one has position 1
	trimmed uint64
	newest  int64
	gen     uint64
	totals  [engine.MaxTotals]int64
}

// testAgainstAModel draws appends, reads and steps of the clock, and compares
// the answers with those of a model.
func testAgainstAModel(s *suite) {
	accounts := 0
	rapid.Check(s.t, func(draw *rapid.T) {
		accounts++
		m := &model{log: s.on(draw).log(fmt.Sprintf("account %d", accounts)), draw: draw}
		s.clock.set(start)
		draw.Repeat(map[string]func(*rapid.T){
			"append": func(draw *rapid.T) {
				m.draw = draw
				m.drawnAppend()
			},
			"read": func(draw *rapid.T) {
				m.draw = draw
				m.drawnRead()
			},
			"clock": func(draw *rapid.T) {
				steps := rapid.SampledFrom([]int64{1, 2, 10, second, hour, -1, -10, -hour, 24 * hour, -24 * hour,
					10 * 365 * 24 * hour})
				s.clock.step(steps.Draw(draw, "step"))
			},
		})
		if got := m.all(rapid.SampledFrom([]int{0, 1, 100}).Draw(draw, "bytes")); !sameBatches(got,
			m.batches[m.trimmed:]) {
			draw.Fatalf("the log has %d batches that differ from the model's", len(got))
		}
	})
}

// drawKnown draws what a caller knows: mostly something that is true.
func (m *model) drawKnown() engine.Known {
	kind := rapid.SampledFrom([]string{"newest", "newest", "newest", "newest", "older", "older", "nothing", "ahead",
		"epoch", "tag", "older tag"}).Draw(m.draw, "knows")
	known := engine.Known{Epoch: m.epoch, After: m.position()}
	switch kind {
	case "nothing":
		return engine.Known{}
	case "older", "older tag":
		known.After = rapid.Uint64Range(0, m.position()).Draw(m.draw, "after")
	case "ahead":
		known.After++
	case "epoch":
		known.Epoch++
	}
	if m.position() == 0 && kind != "ahead" && kind != "epoch" {
		return engine.Known{} // there is no log to know
	}
	if n := known.After; n > 0 && n <= m.position() {
		known.Tag = m.batches[n-1].Tag()
	}
	if kind == "tag" || kind == "older tag" {
		known.Tag[1] ^= 1
	}
	return known
}

func (m *model) position() uint64 { return uint64(len(m.batches)) }

func (m *model) now() int64 { return m.clock.now().UnixMicro() }

// drawAppend draws an append whose conditions are close to what is.
func (m *model) drawAppend() *engine.Append {
	small := rapid.Int64Range(-2, 5)
	rare := rapid.Custom(func(t *rapid.T) bool { return rapid.IntRange(0, 7).Draw(t, "one in 8") == 7 })
	index := rapid.SampledFrom([]uint8{0, 1, 5, 127})
	a := &engine.Append{
		Known: m.drawKnown(), NewEpoch: m.epoch, Any: rare.Draw(m.draw, "any"), Gen: m.gen,
		Data:  m.seq.data(rapid.IntRange(0, 200).Draw(m.draw, "size")),
		Count: rapid.IntRange(0, 4).Draw(m.draw, "count"), Bump: rare.Draw(m.draw, "bump"),
		Bytes: rapid.SampledFrom([]int{0, 1, 100, 500}).Draw(m.draw, "bytes"),
	}
	if rare.Draw(m.draw, "other generation") {
		a.Gen += uint64(1 + 2*rapid.IntRange(0, 1).Draw(m.draw, "by")) // one ahead or three
	}
	if rare.Draw(m.draw, "has notBefore") {
		a.NotBefore = m.now() + small.Draw(m.draw, "notBefore")
	}
	if rare.Draw(m.draw, "has notAfter") {
		a.NotAfter = m.now() + small.Draw(m.draw, "notAfter")
	}
	for range rapid.IntRange(0, 3).Draw(m.draw, "adds") {
		a.Adds = append(a.Adds, engine.Total{Index: index.Draw(m.draw, "index"),
			Amount: rapid.Int64Range(1, 100).Draw(m.draw, "amount")})
	}
	for range rapid.IntRange(0, 2).Draw(m.draw, "conditions") {
		c := engine.Condition{Totals: rapid.SliceOfNDistinct(index, 0, 3, rapid.ID[uint8]).Draw(m.draw, "totals")}
		from := int64(0)
		for range rapid.IntRange(1, 4).Draw(m.draw, "steps") {
			c.Steps = append(c.Steps, engine.Step{From: from, Most: m.sum(c.Totals) + small.Draw(m.draw, "most")})
			from = max(from+1, m.now()+small.Draw(m.draw, "from"))
		}
		a.Conditions = append(a.Conditions, c)
	}
	if rare.Draw(m.draw, "trims") {
		a.Trim = rapid.Uint64Range(1, m.position()+3).Draw(m.draw, "trim") // some batches that are to come, too
	}
	return a
}

func (m *model) sum(totals []uint8) (sum int64) {
	for _, i := range totals {
		sum += m.totals[i]
	}
	return sum
}

// admits reports whether all conditions of an append hold.
func (m *model) admits(a *engine.Append) bool {
	now := m.now()
	if (a.Epoch == 0) != (m.position() == 0) || m.diverged(a.Known) {
		return false
	}
	if a.NotBefore > now || a.NotAfter != 0 && a.NotAfter < now {
		return false
	}
	if !a.Any && a.Gen != m.gen {
		return false
	}
	return a.Any || !slices.ContainsFunc(a.Conditions, func(c engine.Condition) bool {
		bound := int64(0)
		for _, step := range c.Steps {
			if step.From <= now {
				bound = step.Most
			}
		}
		return m.sum(c.Totals) > bound
	})
}

// diverged reports whether the log is not the one that a caller knows.
func (m *model) diverged(known engine.Known) bool {
	switch {
	case known.Epoch == 0:
		return false
	case m.position() == 0 || known.Epoch != m.epoch || known.After > m.position():
		return true
	}
	return known.After > m.trimmed && m.batches[known.After-1].Tag() != known.Tag
}

func (m *model) drawnAppend() {
	a := m.drawAppend()
	tail, err := m.ledger.Append(m.Context(), m.account, a)
	if err != nil {
		m.draw.Fatalf("append: %v", err)
	}
	lands, diverged := m.admits(a), m.diverged(a.Known)
	before, at := m.after(a.Known), int64(0)
	if lands {
		at = max(m.now(), m.newest+1)
		m.batches = append(m.batches, engine.Batch{Position: m.position() + 1, At: at, Data: a.Data})
		m.newest = at + int64(a.Count) - 1
		m.trimmed = max(m.trimmed, min(a.Trim, m.position()))
		for _, add := range a.Adds {
			m.totals[add.Index] += add.Amount
		}
		if a.Bump {
			m.gen++
		}
	}
	if tail.Appended != lands || tail.At != at {
		m.draw.Fatalf("%s; want it appended: %t, at %d", describe(tail), lands, at)
	}
	m.compareAnswer(tail, diverged, before, a.Bytes)
}

func (m *model) drawnRead() {
	r := &engine.Read{Known: m.drawKnown(), Bytes: rapid.SampledFrom([]int{0, 1, 100, 500}).Draw(m.draw, "bytes")}
	tail, err := m.ledger.Read(m.Context(), m.account, r)
	if err != nil {
		m.draw.Fatalf("read: %v", err)
	}
	m.compareAnswer(tail, m.diverged(r.Known), m.after(r.Known), r.Bytes)
}

// after returns the batches after what a caller knows.
func (m *model) after(known engine.Known) []engine.Batch {
	if m.diverged(known) {
		return nil
	}
	return m.batches[max(known.After, m.trimmed):]
}

// compareAnswer compares an answer with the model.
func (m *model) compareAnswer(tail *engine.Tail, diverged bool, batches []engine.Batch, bytes int) {
	want := &engine.Tail{
		Appended: tail.Appended, At: tail.At, Diverged: diverged, Position: m.position(), First: m.trimmed + 1,
		Newest: m.newest, Gen: m.gen, Totals: m.totals,
		Now: m.now(), Batches: tail.Batches, More: tail.More,
	}
	if m.position() > 0 {
		want.Epoch = m.epoch
	}
	m.log.compare(tail, want)
	checkPage(m.log, tail, batches, bytes)
}
