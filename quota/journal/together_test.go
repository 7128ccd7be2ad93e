package journal_test

import (
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
)

// TestHostsReturnTogether: Redis is emptied, and both hosts return while units
// are left. One goes on calling while the other restores what only that knows,
// so that the log grows during the restoration.
func TestHostsReturnTogether(t *testing.T) {
	for _, spent := range []int{150, 1000} {
		limit := 4 * spent
		server := redistest.Start(t)
		var guards []*quota.Guard
		for range 2 {
			h := redisHost(t, server)
			h.budgets = []quota.Budget{{Account: account, Name: "day", Limit: quota.Units(limit), Window: quota.Sliding(24 * time.Hour)}}
			guards = append(guards, h.process())
		}
		total := 0
		for _, g := range guards { // the second one's calls come after what the first heard
			granted, err := calls(g, spent)
			if err != nil {
				t.Fatal(err)
			}
			total += granted
		}
		server.Do(t, "flushall")
		first, err := calls(guards[0], 1)
		if err != nil {
			t.Fatal(err)
		}
		total += first
		var together sync.WaitGroup
		var granted [2]int
		for i, g := range guards {
			together.Go(func() { granted[i], _ = calls(g, 10*limit) })
		}
		together.Wait()
		if total += granted[0] + granted[1]; total != limit {
			t.Errorf("%d calls were granted of %d, although both hosts had returned when %d were left", total, limit, limit-spent-1)
		}
	}
}
