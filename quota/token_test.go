package quota_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// FuzzRedeem: a text is a token only if it is the one of its grant, and nothing
// else can crash.
func FuzzRedeem(f *testing.F) {
	guard, err := quota.NewGuard(memledger.Open(nil), nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []quota.Call{
		{Account: "a", Method: "m", Units: 1},
		{Account: "äöü", Key: "key", Method: "search.list", Units: quota.MaxUnits,
			Caller: quota.Caller{Lane: "cron", Job: "job", Region: "DE"}, ID: quota.NameID("n", "")},
	} {
		grant, err := guard.Spend(f.Context(), seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(grant.Token())
		f.Add(grant.Token() + "\n")
	}
	waited := &quota.Transport{Guard: guard,
		Feedback: func(quota.Call, *http.Response) quota.Verdict { return quota.Verdict{} }}
	if err := guard.Cool(f.Context(), quota.Cooldown{Account: "a", For: time.Millisecond}); err != nil {
		f.Fatal(err)
	}
	trials, err := waited.SpendTogether(f.Context(), quota.Call{Account: "a", Method: "m", Units: 1}, 1, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(trials[0].Token())
	f.Add("")
	f.Add("AQ")
	f.Add("Af___________wE")
	f.Fuzz(func(t *testing.T, text string) {
		grant, err := guard.Redeem(text)
		if err != nil {
			return
		}
		if again := grant.Token(); again != text {
			t.Fatalf("%q is redeemed as %q", text, again)
		}
		if err := grant.Settle(t.Context(), 1); err != nil {
			t.Logf("settle: %v", err)
		}
		if err := grant.Refund(t.Context()); err != nil {
			t.Logf("refund: %v", err)
		}
	})
}
