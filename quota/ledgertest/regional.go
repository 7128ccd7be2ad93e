package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Regional is what one of several concurrent regions was granted.
type Regional struct {
	Region       string
	Units, Calls quota.Units
}

// The budgets of PlayFloors. Four regions have a floor in each: of units in one
// and of calls in the other.
var (
	unitsShared = charge("units", 400, quota.Sliding(24*time.Hour))
	callsShared = charge("calls", 250, quota.Sliding(24*time.Hour), counted)
	keptApart   = floors{"IN": 60, "BR": 50, "DE": 40, "FR": 30}
	eight       = [8]string{"IN", "BR", "DE", "FR", "US", "GB", "CA", "AU"}
)

// PlayFloors spends on a fresh ledger as one of eight regions, which are
// goroutines or processes, until nothing is left for it. It fails if the
// region is refused before it has used its floor. The results of all are the
// input of CheckFloors.
func PlayFloors(ctx context.Context, l quota.Ledger, client int) (Regional, error) {
	mine := Regional{Region: eight[client]}
	floor := keptApart[mine.Region]
	for n, refusals := client, 0; refusals < 12; n += 7 {
		units := quota.Units(1 + n%5)
		if refusals > 5 {
			units = 1 // what is left
		}
		r := keptApart.from(mine.Region, units, unitsShared, callsShared)
		answers, err := l.Spend(ctx, &quota.Batch{Account: account, Requests: []quota.Request{r}})
		switch {
		case err != nil:
			return mine, err
		case answers[0].Err == nil:
			mine.Units, mine.Calls = mine.Units+units, mine.Calls+1
		case mine.Units+units <= floor && mine.Calls+1 <= floor:
			return mine, fmt.Errorf("%s has used %d of its %d: %w", mine.Region, mine.Units, floor, answers[0].Err)
		default:
			refusals++
		}
	}
	return mine, nil
}

// CheckFloors checks the grants of all eight regions against limits and floors.
func CheckFloors(t testing.TB, l quota.Ledger, all []Regional) {
	t.Helper()
	var sum Regional
	for _, r := range all {
		sum.Units, sum.Calls = sum.Units+r.Units, sum.Calls+r.Calls
		if floor := keptApart[r.Region]; r.Units < floor {
			t.Errorf("%s was granted %d units; want its floor at least, %d", r.Region, r.Units, floor)
		}
	}
	t.Logf("%+v", all)
	if len(all) != len(eight) || sum.Units != unitsShared.Limit || sum.Calls > callsShared.Limit {
		t.Errorf("%d units and %d calls granted to %d regions; want the limit of units, and the one of calls kept", sum.Units, sum.Calls, len(all))
	}
	standings, err := l.Standings(context.WithoutCancel(t.Context()), account, "", []*quota.Charge{unitsShared, callsShared})
	if err != nil || standings[0].Used != sum.Units || standings[1].Used != sum.Calls {
		t.Errorf("standings %+v, %v; want %d units and %d calls", standings, err, sum.Units, sum.Calls)
	}
}

// concurrentFloors plays with eight goroutines.
func concurrentFloors(w *world) {
	all := make([]Regional, len(eight))
	var group sync.WaitGroup
	for client := range all {
		group.Go(func() {
			var err error
			if all[client], err = PlayFloors(w.ctx, w, client); err != nil {
				w.Error(err)
			}
		})
	}
	group.Wait()
	CheckFloors(w, w, all)
}
