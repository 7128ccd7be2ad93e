package journal

import (
	"sync"
	"testing"
)

// TestClientIsDrawnTwice: callers that ask at once for the number of a new
// journal got several. What was heard under one that is lost counts as another
// host's.
func TestClientIsDrawnTwice(t *testing.T) {
	for range 20 {
		dir, drawn := t.TempDir(), make([]uint64, 8)
		var callers sync.WaitGroup
		for i := range drawn {
			callers.Go(func() {
				client, err := clientOf(dir)
				if err != nil {
					t.Error(err)
				}
				drawn[i] = client
			})
		}
		callers.Wait()
		for _, client := range drawn {
			if client == 0 || client != drawn[0] {
				t.Fatalf("clients %x; want one", drawn)
			}
		}
	}
}
