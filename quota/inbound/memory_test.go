package inbound

import (
	"fmt"
	"testing"
	"time"
)

// TestMemoryKeepsNoExpiredClients: the store in memory keeps no more clients
// than came within four times the longest limit.
func TestMemoryKeepsNoExpiredClients(t *testing.T) {
	m := Memory().(*memory)
	limits := []Limit{{Calls: 10, Per: time.Second}, {Calls: 10, Per: time.Minute, Estimate: true}}
	for i := range 10_000 {
		r := &Request{Client: fmt.Sprint(i), Limits: limits, Cost: 1, At: int64(i+1) * 1e6}
		if _, err := m.Count(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if n := len(m.younger) + len(m.older); n > 2*240 {
			t.Fatalf("%d windows after %d clients; want those of four minutes at most", n, i)
		}
	}
}
