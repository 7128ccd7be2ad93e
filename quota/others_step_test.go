package quota_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestSmallChangesAreNotLookedAt: within a minute of a note, the ledger is
// compared again only if what is left has changed by a hundredth of the limit.
func TestSmallChangesAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
		var left quota.Units
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1),
			Base: statusTripper(func(*http.Request) int { return http.StatusOK }),
			Feedback: func(quota.Call, *http.Response) quota.Verdict {
				return quota.Verdict{LeftOf: "day",
					Left: left}
			}}}
		for i, step := range []struct {
			after      time.Duration
			left, used quota.Units
		}{
			{0, 999, 1}, // equal to the ledger's
			{0, 995, 2}, // not compared
			{0, 900, 100},
			{0, 891, 101}, // 899 by the ledger, not compared
			{0, 890, 110}, // a hundredth less than 900
			{59 * time.Second, 881, 111},
			{time.Second, 881, 119}, // a minute has passed
		} {
			time.Sleep(step.after)
			left = step.left
			if _, err := getStatus(client); err != nil {
				t.Fatal(err)
			}
			client.CloseIdleConnections()
			if got := used(t, guard); got != step.used {
				t.Errorf("step %d: %d left, used is %d; want %d", i, step.left, got, step.used)
			}
		}
	})
}

// closable is a base that counts calls of CloseIdleConnections.
type closable struct {
	tripper
	closed *int
}

func (c closable) CloseIdleConnections() { *c.closed++ }

// TestIdleConnectionsOfTheBaseStayOpen: CloseIdleConnections reaches a base
// that has it.
func TestIdleConnectionsOfTheBaseStayOpen(t *testing.T) {
	closed := 0
	(&quota.Transport{Guard: newGuard(t, nil, budget("day", 1, time.Hour)),
		Base: closable{closed: &closed}}).CloseIdleConnections()
	(&quota.Transport{Base: closable{closed: &closed}}).CloseIdleConnections()
	if closed != 2 {
		t.Errorf("closed %d times by two transports; want once each", closed)
	}
}
