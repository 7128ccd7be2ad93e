package quota_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestPauseDoublesOverProcesses: each refusal that does not say how long to
// pause comes to a process that has just started, as from a crontab. The pause
// doubles up to its bound, and begins anew after a call that was not refused.
func TestPauseDoublesOverProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		budget := quota.Budget{Account: "a", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)}
		call := quota.Call{Account: "a", Method: "m", Units: 1}
		refuses := true
		once := func() time.Duration {
			guard, err := quota.NewGuard(ledger, []quota.Budget{budget}, nil)
			if err != nil {
				t.Fatal(err)
			}
			transport := &quota.Transport{Guard: guard, Feedback: func(quota.Call, *http.Response) (v quota.Verdict) {
				if refuses {
					v = quota.Verdict{For: 2 * time.Second, UpTo: 10 * time.Minute, Budget: "day", Transient: true}
				}
				return v
			}}
			grant, err := guard.Spend(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			v, err := transport.Answered(t.Context(), call, grant,
				&http.Response{StatusCode: http.StatusTooManyRequests})
			if err != nil {
				t.Fatal(err)
			}
			return v.For
		}
		want := 2 * time.Second
		for range 12 {
			if got := once(); got != want {
				t.Fatalf("a pause of %s; want %s", got, want)
			}
			time.Sleep(max(want, time.Minute) + time.Second)
			want = min(2*want, 10*time.Minute)
		}
		refuses = false
		once()
		time.Sleep(time.Minute)
		refuses = true
		if got := once(); got != 2*time.Second {
			t.Errorf("after a call that was not refused, a pause of %s; want 2 s", got)
		}
	})
}
