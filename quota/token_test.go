package quota_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// FuzzRedeem: a text is a token only if it is the one of its grant, and nothing
// else can crash.
func FuzzRedeem(f *testing.F) {
	guard, err := quota.NewGuard(ledgertest.Memory(nil), nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []quota.Call{
		{Account: "a", Method: "m", Units: 1},
		{Account: "äöü", Key: "key", Method: "search.list", Units: quota.MaxUnits, Caller: quota.Caller{Lane: "cron", Job: "job", Region: "DE"}, ID: quota.NameID("n", "")},
	} {
		grant, err := guard.Spend(f.Context(), seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(grant.Token())
		f.Add(grant.Token() + "\n")
	}
	waited := &quota.Transport{Guard: guard, Feedback: func(quota.Call, *http.Response) quota.Verdict { return quota.Verdict{} }}
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

// TestRedeemedGrantIsLoweredTwice: a log without entries cannot tell whether a
// grant that several processes hold was lowered before. Only the process that
// got it lowers it.
func TestRedeemedGrantIsLoweredTwice(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Log, error)) {
		guard, other := openGuard(t, open, counterOfADay), openGuard(t, open, counterOfADay)
		one := call("search", 40)
		one.ID = quota.NameID("a name", "")
		grant, err := guard.Spend(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), call("search", 60)); err != nil {
			t.Fatal(err)
		}
		redeemed, err := other.Redeem(grant.Token())
		if err != nil {
			t.Fatal(err)
		}
		repeated, err := other.Spend(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		for _, shared := range []*quota.Grant{redeemed, repeated} {
			refunded, lowered, same := shared.Refund(t.Context()), shared.Settle(t.Context(), 10), shared.Settle(t.Context(), 40)
			if !errors.Is(refunded, quota.ErrStays) || !errors.Is(lowered, quota.ErrStays) || same != nil || used(t, other) != 100 {
				t.Errorf("refunded: %v, lowered: %v, settled to the same: %v, %d units are used; want ErrStays twice, and 100", refunded, lowered, same, used(t, other))
			}
		}
		if err := redeemed.Settle(t.Context(), 50); err != nil || used(t, other) != 110 {
			t.Errorf("raised: %v, %d units are used; want 110", err, used(t, other))
		}
		if err := grant.Settle(t.Context(), 10); err != nil || used(t, guard) != 80 {
			t.Errorf("lowered by the process that got it: %v, %d units are used; want 80", err, used(t, guard))
		}
	})
}
