package ledgertest

import (
	"bytes"
	"slices"

	"github.com/ration-dev/ration/internal/engine"
)

// testPages: pages have at least one batch, then as many as fit.
func testPages(s *suite) {
	g := s.log("project")
	var want []engine.Batch
	for i := range 40 {
		data := g.seq.data(1 + 37*i%400)
		tail := g.must(engine.Append{Data: data})
		want = append(want, engine.Batch{Position: tail.Position, At: tail.At, Data: data})
	}
	for _, size := range []int{0, 1, 10, 399, 400, 1000, 5000, 1 << 20} {
		if got := g.all(size); !sameBatches(got, want) {
			g.Fatalf("pages of %d bytes: %d batches that differ from the %d appended", size, len(got), len(want))
		}
		tail := g.read(engine.Known{}, size)
		checkPage(g, tail, want, size)
	}
	if tail := g.read(g.known, 0); len(tail.Batches) != 0 || tail.More {
		g.Errorf("%s; want no batches after the newest", describe(tail))
	}
}

// overhead is what a store may count for a batch beside its data.
const overhead = 64

// checkPage checks a page against the batches that there are after what the
// caller knows.
func checkPage(g *log, tail *engine.Tail, there []engine.Batch, size int) {
	g.Helper()
	if size == 0 {
		size = engine.DefaultPage
	}
	n := len(tail.Batches)
	if n > len(there) || !sameBatches(tail.Batches, there[:n]) {
		g.Fatalf("%s; want the %d batches after what the caller knows", describe(tail), len(there))
	}
	if tail.More != (n < len(there)) || n == 0 && len(there) > 0 {
		g.Fatalf("%s; there are %d batches", describe(tail), len(there))
	}
	sum, gross := 0, 0
	for _, b := range tail.Batches {
		sum += len(b.Data)
		gross += len(b.Data) + overhead
	}
	if n > 1 && sum > size {
		g.Fatalf("a page of %d bytes; want at most %d", sum, size)
	}
	if tail.More && gross+len(there[n].Data)+overhead <= size {
		g.Fatalf("a page of %d batches; the next one fits into %d bytes too", n, size)
	}
}

// testDefaultPage: a page is of DefaultPage bytes, and a batch may be larger.
func testDefaultPage(s *suite) {
	g := s.log("project")
	var want []engine.Batch
	for _, size := range []int{400 << 10, 400 << 10, 400 << 10, 3 << 20, 10} {
		data := g.seq.data(size)
		tail := g.must(engine.Append{Data: data})
		want = append(want, engine.Batch{Position: tail.Position, At: tail.At, Data: data})
	}
	tail := g.read(engine.Known{}, 0)
	checkPage(g, tail, want, 0)
	if len(tail.Batches) != 2 {
		g.Errorf("%s; want 2 batches", describe(tail))
	}
	if !sameBatches(g.all(0), want) {
		g.Error("the pages differ from what was appended")
	}
}

// testDataIsCopied: a caller may use the memory of a batch again.
func testDataIsCopied(s *suite) {
	g := s.log("project")
	data := g.seq.data(100)
	want := bytes.Clone(data)
	g.must(engine.Append{Data: data})
	for i := range data {
		data[i] = 0xee
	}
	if got := g.all(0); !bytes.Equal(got[0].Data, want) {
		g.Errorf("the log has %x; want %x, as it was appended", got[0].Data, want)
	}
}

// testSeveralAccounts: logs do not share anything.
func testSeveralAccounts(s *suite) {
	a, b := s.log("a"), s.log("b")
	a.must(engine.Append{Count: 5, Adds: add(0, 7), Bump: true})
	if head := b.head(); head.Epoch != 0 {
		s.Fatalf("%s; want no log", describe(&head))
	}
	tail := b.must(engine.Append{})
	b.compare(tail, &engine.Tail{
		Appended: true, At: start, Epoch: b.epoch, Position: 1,
		First: 1, Newest: start, Now: start,
	})
	for range 3 {
		a.must(engine.Append{Gen: 1})
	}
	a.must(engine.Append{Gen: 1, Trim: 4})
	if head := b.head(); head.Position != 1 || head.First != 1 || len(b.all(0)) != 1 {
		s.Errorf("%s; want one batch", describe(&head))
	}
	if got := a.all(0); len(got) != 1 || got[0].Position != 5 {
		s.Errorf("%d batches; want batch 5", len(got))
	}
}

// oddNames are names of accounts that a store may take for something else.
func oddNames() []string {
	return []string{
		"A", "a", "a ", " a", "ä", "a\u0308", "日本", "\U0001F600", "a:b", "a:b:c", "{a}", "a{b}c", "}{", "*",
		"?[a-z]",
		"a%b", "a_b", "%s%d", "a'b", `a"b`, `a\b`, "a;b", "--", "$1", "?1", "a\nb", "a\tb", "a\x00b", "a\x00",
		"\xff\xfe",
		"NULL", "0", "-1", "1e3", "..", "../a", "a/b", "/", `"]]..redis.call("FLUSHALL")`, "'; DROP TABLE batches; --",
		"heads", "batches", "select", string(bytes.Repeat([]byte("long "), 100)),
	}

}

// testAccountNames: each name is a log of its own, and listed as it was given.
func testAccountNames(s *suite) {
	for i, name := range oddNames() {
		g := s.log(name)
		if head := g.head(); head.Epoch != 0 {
			g.Fatalf("%q: %s; want no log", name, describe(&head))
		}
		g.must(engine.Append{Adds: add(0, int64(i+1))})
		g.must(engine.Append{Trim: 1})
	}
	for i, name := range oddNames() {
		if head := s.log(name).head(); head.Totals[0] != int64(i+1) || head.Position != 2 || head.First != 2 {
			s.Errorf("%q: %s, total %d; want total %d", name, describe(&head), head.Totals[0], i+1)
		}
	}
	want := oddNames()
	slices.Sort(want)
	if got := s.accounts(); !slices.Equal(got, want) {
		s.Errorf("the accounts are %q; want %q", got, want)
	}
}

// accounts returns the accounts that have a log, sorted.
func (s *suite) accounts() (names []string) {
	s.Helper()
	for name, err := range s.ledger.Accounts(s.Context()) {
		if err != nil {
			s.Fatalf("accounts: %v", err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// testAccounts: those that have a log, and a caller may stop early.
func testAccounts(s *suite) {
	if got := s.accounts(); len(got) != 0 {
		s.Fatalf("the accounts are %q; want none", got)
	}
	s.log("refused").refused("generation", engine.Append{Gen: 1})
	s.log("read").head()
	if got := s.accounts(); len(got) != 0 {
		s.Errorf("the accounts are %q; want none, since nothing was appended", got)
	}
	s.log("a").must(engine.Append{})
	s.log("b").must(engine.Append{Trim: 1})
	if got := s.accounts(); !slices.Equal(got, []string{"a", "b"}) {
		s.Errorf("the accounts are %q; want a and b", got)
	}
	n := 0
	for _, err := range s.ledger.Accounts(s.Context()) {
		if err != nil {
			s.Fatal(err)
		}
		n++
		break
	}
	s.log("c").must(engine.Append{}) // it holds no lock
	if n != 1 {
		s.Errorf("%d accounts before a break; want 1", n)
	}
}
