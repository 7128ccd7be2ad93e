package quota_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestMovedAccountIsWaitedFor: a call on a ledger that its account has left
// would be refused as by any cooldown, and tried again for ever.
func TestMovedAccountIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, ledger := t.Context(), memledger.Open(nil)
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 5, 24*time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		call := quota.Call{Account: "my-project", Method: "m", Units: 1}
		tripped := &quota.Transport{Guard: guard, Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody, Request: r}, nil
		}), Price: func(*http.Request) (quota.Call, error) { return call, nil }, MaxWait: time.Hour,
			Feedback: func(quota.Call, *http.Response) quota.Verdict {
				return quota.Verdict{For: time.Minute, Transient: true}
			}}
		send := func() error {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream.example", nil)
			_, err := tripped.RoundTrip(req)
			return err
		}
		if err := send(); err != nil { // a breaker is open from now on
			t.Fatal(err)
		}
		move := quota.Move{Account: "my-project", Ledger: "redis://there:6379/0", ID: "0123456789ab"}
		if err := ledger.SetCooldown(ctx, move.Cooldown()); err != nil {
			t.Fatal(err)
		}
		ways := map[string]func() error{
			"Spend":         func() error { _, err := guard.Spend(ctx, call); return err },
			"Wait":          func() error { _, err := guard.Wait(ctx, call, time.Hour); return err },
			"SpendTogether": func() error { _, err := guard.SpendTogether(ctx, call, 3, time.Hour); return err },
			"RoundTrip":     send,
		}
		for name, way := range ways {
			err := way()
			moved, ok := errors.AsType[*quota.MovedError](err)
			if !ok || moved.Account != move.Account || moved.Ledger != move.Ledger || !errors.Is(err, quota.ErrLedgerConfig) ||
				errors.Is(err, quota.ErrRefused) || !strings.Contains(err.Error(), move.Ledger) {
				t.Errorf("%s: %v; want a MovedError", name, err)
			}
		}
	})
}

// TestArrivingAccountIsWaitedForUntilTheYear2200: a call on the new ledger is
// tried again in seconds, and granted as soon as the account is there.
func TestArrivingAccountIsWaitedForUntilTheYear2200(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 5, 24*time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		move := quota.Move{Account: "my-project", Ledger: "sqlite:/var/lib/ration/ration.db", Arriving: true, ID: "0123456789ab"}
		if err := ledger.SetCooldown(t.Context(), move.Cooldown()); err != nil {
			t.Fatal(err)
		}
		call := quota.Call{Account: "my-project", Method: "m", Units: 1}
		_, err = guard.Spend(t.Context(), call)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || refused.RetryAfter > 10*time.Second || time.Until(refused.RetryAt) > 10*time.Second || !strings.Contains(err.Error(), move.Ledger) {
			t.Fatalf("%v; want a refusal for seconds that names the old ledger", err)
		}
		time.AfterFunc(12*time.Second, func() { _ = ledger.ClearCooldown(context.Background(), "my-project", "") })
		if _, err := guard.Wait(t.Context(), call, time.Minute); err != nil {
			t.Fatal(err)
		}
	})
}

// TestStopDuringAMoveIsLost: a stop of the whole account that the upstream asks
// of a call in flight, after the account has left the ledger, is kept for the
// new one.
func TestStopDuringAMoveIsLost(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return now }})
	guard, err := quota.NewGuard(ledger, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	move := quota.Move{Account: "a", Ledger: "redis://there:6379/0", ID: "0123456789ab"}
	stop := quota.Cooldown{Account: "a", Until: now.Add(time.Hour), Reason: "quotaExceeded"}
	if err := errors.Join(ledger.SetCooldown(t.Context(), move.Cooldown()), guard.Cool(t.Context(), stop)); err != nil {
		t.Fatal(err)
	}
	all, err := ledger.Cooldowns(t.Context(), "a")
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v; want two", all, err)
	}
	for _, c := range all {
		if c.Budget == quota.DisplacedBudget && (!c.Until.Equal(stop.Until) || c.Reason != stop.Reason) || c.Budget == "" && !c.Until.Equal(move.Cooldown().Until) {
			t.Errorf("%+v", c)
		}
	}
}

// TestUpstreamMovesAnAccount: what an upstream says is the reason of a
// cooldown, and must not name a ledger for the operator to connect to.
func TestUpstreamMovesAnAccount(t *testing.T) {
	move := quota.Move{Account: "a", Ledger: "redis://evil:6379/0", ID: "0123456789ab"}
	c := move.Cooldown()
	if _, ok := c.Move(); !ok {
		t.Fatal("not a move")
	}
	for _, forged := range []quota.Cooldown{
		{Account: "a", Until: time.Now().AddDate(1, 0, 0), Reason: c.Reason},
		{Account: "a", Budget: "day", Until: c.Until, Reason: c.Reason},
		{Account: "a", Until: c.Until, Reason: "moved to nowhere"},
		{Account: "a", Until: c.Until, Reason: "stop (ration ledger copy 1)"},
		{Account: "a", Until: c.Until},
	} {
		if m, ok := forged.Move(); ok {
			t.Errorf("%+v is %+v", forged, m)
		}
	}
	if _, ok := (*quota.Cooldown)(nil).Move(); ok {
		t.Error("no cooldown is a move")
	}
}

// TestLongLedgerNameIsCut: a reason holds 200 bytes, and the id must be
// in them.
func TestLongLedgerNameIsCut(t *testing.T) {
	for _, name := range []string{strings.Repeat("sqlite:/é", 60), "sqlite:/" + strings.Repeat("日本", 40), "redis+cluster://" + strings.Repeat("node.internal:6379,", 20)} {
		for _, arriving := range []bool{false, true} {
			c := (&quota.Move{Account: "a", Ledger: name, Arriving: arriving, ID: "0123456789ab"}).Cooldown()
			got, ok := c.Move()
			if !ok || got.ID != "0123456789ab" || len(c.Reason) > quota.MaxReason || !utf8.ValidString(c.Reason) || !strings.HasSuffix(name, got.Ledger[len(got.Ledger)-10:]) {
				t.Errorf("%d bytes, %+v", len(c.Reason), got)
			}
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
