package quota_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// eachLedger runs a test on a new ledger of each kind.
func eachLedger(t *testing.T, run func(t *testing.T, open func() (quota.Ledger, error))) {
	for name, open := range map[string]opener{"memory": openMemory, "SQLite": openSQLite, "Redis": openRedis} {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

// TestCallsTogetherAreChargedAllOrNone: calls that do not all fit are refused
// together, also when they are repeated, and are charged once when they fit.
func TestCallsTogetherAreChargedAllOrNone(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard := openGuard(t, open)
		spent, err := guard.Spend(t.Context(), call("videos", 700))
		if err != nil {
			t.Fatal(err)
		}
		many := call("search", 100)
		many.ID = quota.NameID("many", "")
		for range 2 {
			_, err := guard.SpendTogether(t.Context(), many, 4, 0)
			refused, ok := errors.AsType[*quota.RefusedError](err)
			if !ok || used(t, guard) != 700 || refused.Used != 700 || refused.Remaining != 300 ||
				refused.Needed != 400 {
				t.Fatalf("%+v, %v, %d units; want a refusal of 400 and 700", refused, err, used(t, guard))
			}
		}
		if err := spent.Refund(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			grants, err := guard.SpendTogether(t.Context(), many, 4, 0)
			if err != nil || len(grants) != 4 || used(t, guard) != 400 {
				t.Fatalf("%d grants, %v, %d units; want 4 and 400", len(grants), err, used(t, guard))
			}
		}
		for units, want := range map[quota.Units]string{
			100: "allows 1000 units, 11 calls of search need 1100 and never fit together; spend at most 10 at once",
			1001: "allows 1000 units, 11 calls of search need 11011 and never fit together; lower its cost or raise " +
				"the limit",
		} {
			if _, err := guard.SpendTogether(t.Context(), call("search", units), 11, time.Hour); !errors.Is(err,
				quota.ErrNeverFits) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v; want %s", err, want)
			}
		}
		if _, err := guard.SpendTogether(t.Context(), call("search", 1), quota.MaxTogether+1, 0); !errors.Is(err,
			quota.ErrBadCall) {
			t.Errorf("%v; want the most calls", err)
		}
	})
}

// TestSpendTogetherSaysWhenAllFit: the refusal of several calls says when all
// of them fit, and leaves nothing in the log.
func TestSpendTogetherSaysWhenAllFit(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	byCalls := quota.Budget{Account: account, Name: "calls", Limit: 10, Measure: quota.Calls,
		Window: quota.Sliding(12 * time.Second)}
	guard, err := quota.NewGuard(ledger, []quota.Budget{byCalls}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 3} {
		if _, err := guard.SpendTogether(t.Context(), call("m", 1), n, 0); err != nil {
			t.Fatal(err)
		}
		clock.Add(5 * time.Second)
	}
	_, err = guard.SpendTogether(t.Context(), call("m", 1), 9, 0)
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || refused.Used != 4 || refused.Remaining != 6 || refused.Needed != 9 || refused.Limit != 10 {
		t.Fatalf("%+v, %v; want 9 of the 6 that are left", refused, err)
	}
	entries := 0
	for range guard.Entries(t.Context(), quota.Query{Account: account}) {
		entries++
	}
	if entries != 4 {
		t.Errorf("the log has %d entries; want those of the 4 calls", entries)
	}
	clock.Set(refused.RetryAt.Add(-time.Microsecond))
	if _, err := guard.SpendTogether(t.Context(), call("m", 1), 9, 0); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("before its time: %v", err)
	}
	clock.Set(refused.RetryAt)
	if grants, err := guard.SpendTogether(t.Context(), call("m", 1), 9, 0); len(grants) != 9 || err != nil {
		t.Errorf("at its time: %d grants, %v", len(grants), err)
	}
}

// TestRefusalIsAboutTheLast: where the lower limit of another configuration
// holds, the refusal of several calls was about the first that did not fit.
func TestRefusalIsAboutTheLast(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		ledger, err := open()
		if err != nil {
			t.Fatal(err)
		}
		guardOf := func(limit quota.Units) *quota.Guard {
			all := budget("all", limit, time.Hour)
			all.Config = quota.Config{Name: fmt.Sprint("limit ", limit), Changed: time.Unix(1, 0)}
			guard, err := quota.NewGuard(ledger, []quota.Budget{all}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return guard
		}
		if _, err := guardOf(10).Spend(t.Context(), call("m", 4)); err != nil {
			t.Fatal(err)
		}
		guard := guardOf(100)
		_, err = guard.SpendTogether(t.Context(), call("m", 1), 7, 0)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || refused.Limit != 10 || refused.ConfiguredLimit != 100 || refused.Used != 4 ||
			refused.Remaining != 6 || refused.Needed != 7 {
			t.Errorf("7 calls: %+v, %v; want 7 of the 6 that are left of 10", refused, err)
		}
		_, err = guard.SpendTogether(t.Context(), call("m", 1), 12, 0)
		if never, ok := errors.AsType[*quota.NeverFitsError](err); !ok || never.Limit != 10 ||
			never.ConfiguredLimit != 100 || never.Needed != 12 {
			t.Errorf("12 calls: %v; want that they never fit 10", err)
		}
		if grants, err := guard.SpendTogether(t.Context(), call("m", 1), 6, 0); len(grants) != 6 || err != nil {
			t.Errorf("%d grants, %v; want 6", len(grants), err)
		}
	})
}

// TestSentCallStaysCharged: calls that an earlier request with the same ID was
// granted stay charged when the ID is used for other calls, or some of them
// were refunded.
func TestSentCallStaysCharged(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard := openGuard(t, open)
		if _, err := guard.Spend(t.Context(), call("videos", 400)); err != nil {
			t.Fatal(err)
		}
		many := call("search", 100)
		many.ID = quota.NameID("many", "")
		grants, err := guard.SpendTogether(t.Context(), many, 3, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.SpendTogether(t.Context(), many, 9, 0); !errors.Is(err, quota.ErrReused) ||
			used(t, guard) != 700 {
			t.Errorf("9 calls by the ID of 3: %v, %d units; want that the ID was used, and 700", err, used(t, guard))
		}
		other := many
		other.Method = "videos"
		if _, err := guard.SpendTogether(t.Context(), other, 5, 0); !errors.Is(err, quota.ErrReused) ||
			used(t, guard) != 700 {
			t.Errorf("%v, %d units; want that the ID was used, and 700", err, used(t, guard))
		}
		if err := errors.Join(grants[0].Settle(t.Context(), 50), grants[1].Refund(t.Context())); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			anew, err := guard.SpendTogether(t.Context(), many, 3, 0)
			if err != nil || len(anew) != 3 || used(t, guard) != 850 {
				t.Errorf("%d grants, %v, %d units; want 3 anew, and the 550 of the calls that were sent", len(anew),
					err, used(t, guard))
			}
		}
	})
}

// TestSpendTogetherWaits: calls that are refused together wait for their units.
func TestSpendTogetherWaits(t *testing.T) {
	guard := newGuard(t, nil, budget("burst", 2, 50*time.Millisecond))
	if _, err := guard.Spend(t.Context(), call("m", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.SpendTogether(t.Context(), call("m", 1), 2, time.Minute); err != nil {
		t.Error(err)
	}
}

// TestATokenIsRedeemedAnywhere: another process settles and refunds by a token,
// with the call as it was; other texts are errors.
func TestATokenIsRedeemedAnywhere(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		guard, other := openGuard(t, open), openGuard(t, open)
		one := call("search", 100)
		one.Caller = quota.Caller{Lane: "cron", Job: "job é", Region: "IN"}
		grant, err := guard.Spend(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		redeemed, err := other.Redeem(grant.Token())
		if err != nil || !reflect.DeepEqual(redeemed.Call(), grant.Call()) || redeemed.ID() != grant.ID() {
			t.Fatalf("%+v, %v; want %+v", redeemed.Call(), err, grant.Call())
		}
		if err := grant.Settle(t.Context(), 40); err != nil {
			t.Fatal(err)
		}
		if redeemed.Refresh(t.Context()); redeemed.Call().Units != 40 {
			t.Errorf("%d units; want the 40 that it was settled to", redeemed.Call().Units)
		}
		if err := redeemed.Settle(t.Context(), 7); err != nil || used(t, guard) != 7 {
			t.Errorf("%v, %d units; want 7", err, used(t, guard))
		}
		if err := redeemed.Refund(t.Context()); err != nil || used(t, guard) != 0 {
			t.Errorf("%v, %d units; want 0", err, used(t, guard))
		}
		token := grant.Token()
		for _, text := range []string{"", "x", "AQ", token[:len(token)-2], token + "AA", strings.Repeat("_", 100)} {
			if _, err := other.Redeem(text); !errors.Is(err, quota.ErrBadToken) {
				t.Errorf("%q: %v; want an error", text, err)
			}
		}
	})
}

// TestAnAnswerThatOthersGotSettlesItsGrant: an answer to a request that was
// sent by other means settles the grant and sets the cooldown, as that of
// RoundTrip does.
func TestAnAnswerThatOthersGotSettlesItsGrant(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
	transport := &quota.Transport{Guard: guard, Feedback: func(quota.Call, *http.Response) quota.Verdict {
		return quota.Verdict{Settled: true, Units: 3, For: time.Hour, Reason: "exhausted"}
	}}
	one := call("m", 100)
	grant, err := guard.Spend(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	resp := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody}
	if verdict, err := transport.Answered(t.Context(), one, grant, resp); err != nil || verdict.For != time.Hour ||
		used(t, guard) != 3 {
		t.Errorf("%+v, %d units; want the cooldown, and 3", verdict, used(t, guard))
	}
	if _, err := guard.Spend(t.Context(), one); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want the cooldown", err)
	}
	transport.Answered(t.Context(), one, nil, resp) // which has nothing to settle
	if used(t, guard) != 3 {
		t.Errorf("%d units; want 3", used(t, guard))
	}
}

// TestALaterAnswerSettlesTheCallAnew: an answer with the price as its cost
// settles a call that was settled to another amount, or refunded, since its
// token was taken.
func TestALaterAnswerSettlesTheCallAnew(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 1000, 24*time.Hour))
	transport := &quota.Transport{Guard: guard, Feedback: func(quota.Call, *http.Response) quota.Verdict {
		return quota.Verdict{Settled: true, Units: 100}
	}}
	spent, err := guard.Spend(t.Context(), call("m", 100))
	if err != nil {
		t.Fatal(err)
	}
	redeem := func() *quota.Grant {
		grant, err := guard.Redeem(spent.Token())
		if err != nil {
			t.Fatal(err)
		}
		return grant
	}
	for name, change := range map[string]func() error{
		"settled":  func() error { return redeem().Settle(t.Context(), 5) },
		"refunded": func() error { return redeem().Refund(t.Context()) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		grant, resp := redeem(), &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
		if _, err := transport.Answered(t.Context(), grant.Call(), grant, resp); err != nil || used(t, guard) != 100 {
			t.Errorf("%s: %v, %d units; want the cost in the answer, 100", name, err, used(t, guard))
		}
	}
}

// TestMaxWaitOfARequestReplacesTheTransports: the wait of a request's context
// replaces the Transport's.
func TestMaxWaitOfARequestReplacesTheTransports(t *testing.T) {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{budget("burst", 1, 50*time.Millisecond)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &quota.Transport{Guard: guard, Price: priced(1),
		Base: statusTripper(func(*http.Request) int { return http.StatusOK })}
	get := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://upstream/m", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = transport.RoundTrip(req)
		return err
	}
	if err := errors.Join(get(t.Context()), get(waiting(t.Context(), time.Minute))); err != nil {
		t.Error(err)
	}
	transport.MaxWait = time.Minute
	if err := get(waiting(t.Context(), 0)); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want a refusal", err)
	}
}

// TestCallsTogetherAskTheirLimit: of two configurations with different limits,
// the stricter holds for calls together, and once it has asked for some, even
// if they are refused.
func TestCallsTogetherAskTheirLimit(t *testing.T) {
	eachLedger(t, func(t *testing.T, open func() (quota.Ledger, error)) {
		configured := func(name string, limit quota.Units) *quota.Guard {
			ledger, err := open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ledger.Close() })
			b := budget("day", limit, 24*time.Hour)
			b.Config = quota.Config{Name: name}
			guard, err := quota.NewGuard(ledger, []quota.Budget{b}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return guard
		}
		loose, strict := configured("loose", 50), configured("strict", 5)
		together := func(g *quota.Guard, count int) error {
			_, err := g.SpendTogether(t.Context(), call("m", 1), count, 0)
			return err
		}
		if err := together(loose, 3); err != nil {
			t.Fatal(err)
		}
		if err := together(strict, 3); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("%v; want a refusal, as 2 of 5 are left", err)
		}
		refused, _ := errors.AsType[*quota.RefusedError](together(loose, 3))
		if refused == nil || refused.Limit != 5 || refused.ConfiguredLimit != 50 || refused.Used != 3 ||
			refused.Remaining != 2 || refused.Needed != 3 {
			t.Errorf("%+v; want a refusal by the stricter limit", refused)
		}
		grants, err := loose.SpendTogether(t.Context(), call("m", 1), 2, 0)
		if err != nil || used(t, loose) != 5 {
			t.Fatalf("%v, %d used; want 5", err, used(t, loose))
		}
		for _, grant := range grants {
			if b, _ := grant.Tightest(); b.Limit() != 5 {
				t.Errorf("%+v; want the stricter limit", b)
			}
		}
	})
}

// waiting returns a context whose requests may wait.
func waiting(ctx context.Context, maxWait time.Duration) context.Context {
	return quota.WithRequestOptions(ctx, func(t *quota.RequestOptions) { t.MaxWait = &maxWait })
}
