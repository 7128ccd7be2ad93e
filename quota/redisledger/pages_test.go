package redisledger

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
)

// TestPagesOfAChangingLogHaveNoGap: whatever is appended and trimmed while a
// long log is read, each page has the batches that follow those before it, and
// the pages end with the log.
func TestPagesOfAChangingLogHaveNoGap(t *testing.T) {
	l := newLog(t, open(t, servers.StartRedis(t).URL(), nil), "a")
	const count = 5_000
	for range count {
		l.append(l.next())
	}
	if tail := l.read(0); len(tail.Batches) != count || tail.More {
		t.Fatalf("%d batches, more: %t; want all %d in one page", len(tail.Batches), tail.More, count)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(300) {
			a := l.next()
			a.Trim = 10 * i
			l.append(a)
		}
	})
	defer wg.Wait()
	for range 100 {
		r := &engine.Read{Bytes: 100_000}
		for more := true; more; {
			tail, err := l.Read(context.Background(), "a", r)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range tail.Batches {
				number := uint64(binary.BigEndian.Uint32(b.Data[6:]))
				if b.Position != max(r.After+1, tail.First)+uint64(i) || number != b.Position {
					t.Fatalf("batch %d of the page after %d: position %d, number %d", i, r.After, b.Position, number)
				}
			}
			if more = tail.More; !more && tail.Batches[len(tail.Batches)-1].Position != tail.Position {
				t.Fatalf("the last page ends at %d; want %d", tail.Batches[len(tail.Batches)-1].Position, tail.Position)
			}
			r = following(tail)
			r.Bytes = 100_000
		}
	}
}
