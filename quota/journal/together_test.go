package journal_test

import (
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
		limit := 20 * spent
		server := redistest.Start(t)
		var guards []*quota.Guard
		for range 2 {
			h := redisHost(t, server)
			h.budgets = []quota.Budget{{Account: account, Name: "day", Limit: quota.Units(limit), Window: quota.Sliding(24 * time.Hour)}}
			guards = append(guards, h.process())
		}
		total := 0
		call := func(g *quota.Guard, most int) {
			granted, err := calls(g, most)
			if total += granted; err != nil {
				t.Fatal(err)
			}
		}
		call(guards[0], spent)
		call(guards[1], spent) // after what the first heard
		server.Do(t, "flushall")
		call(guards[0], 1)
		returned := make(chan int, 1)
		go func() { n, _ := calls(guards[1], 1); returned <- n }()
		for hasReturned := false; !hasReturned; {
			select {
			case n := <-returned:
				total += n
				hasReturned = true
			default:
				call(guards[0], 1) // fails at the limit
			}
		}
		balances, err := guards[0].Balances(t.Context())
		if err != nil || balances[0].Used != quota.Units(total) {
			t.Errorf("%d units are in use, %v; want the %d that were granted", balances[0].Used, err, total)
		}
	}
}
