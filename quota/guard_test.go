package quota_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

const account = "my-project"

func budget(name string, limit quota.Units, window time.Duration) quota.Budget {
	return quota.Budget{Account: account, Name: name, Limit: limit, Window: quota.Sliding(window)}
}

func newGuard(t testing.TB, o *memledger.Options, budgets ...quota.Budget) *quota.Guard {
	t.Helper()
	guard, err := quota.NewGuard(memledger.Open(o), budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func call(method string, units quota.Units) quota.Call {
	return quota.Call{Account: account, Method: method, Units: units}
}

func used(t testing.TB, guard *quota.Guard) quota.Units {
	t.Helper()
	balances, err := guard.Balances(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return balances[0].Used
}

func TestNewGuardNamesEveryMistake(t *testing.T) {
	day := budget("day", 10, time.Hour)
	_, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		day, day,
		{Account: account, Name: "nothing"},
		{Name: "nobody's", Limit: 1, Window: quota.Sliding(time.Minute)},
		{Account: account, Limit: quota.MaxLimit + 1, Window: quota.Sliding(time.Nanosecond)},
		{Account: account, Name: "nowhere", Limit: 1, Window: quota.Daily(nil), Methods: []string{""}},
		{Account: account, Name: "measureless", Limit: 1, Window: quota.Sliding(time.Hour), Measure: "units"},
	}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`"day": named twice`, "a limit of 0", "no window", "no account", "no name",
		"a limit of 140737488355328", "a window of 0s", "without a zone", "an empty word", "a measure of more than"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from: %v", want, err)
		}
	}
	_, err = quota.NewGuard(memledger.Open(nil),
		[]quota.Budget{{Account: account, Limit: -4, Window: quota.Sliding(time.Hour)}}, nil)
	const want = "quota: new guard: budget \"\": no name; give it one that is unique in its account\n" +
		"budget \"\": a limit of -4; set it to 1 to 140737488355327"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var many []quota.Budget
	for i := range quota.MaxCoverages + 1 {
		b := budget(fmt.Sprint(i), 10, time.Hour)
		b.Methods = []string{fmt.Sprint("m", i)}
		many = append(many, b)
	}
	if _, err := quota.NewGuard(memledger.Open(nil), many, nil); err == nil ||
		!strings.Contains(err.Error(), "65 different coverages; have at most 64") {
		t.Errorf("65 coverages: %v", err)
	}
	if _, err := quota.NewGuard(nil, nil, nil); err == nil {
		t.Error("accepted without a ledger")
	}
}

func TestABudgetCountsTheCallsThatItCovers(t *testing.T) {
	guard := newGuard(t, nil,
		budget("all", 1000, time.Hour),
		quota.Budget{Account: account, Name: "methods", Limit: 1000, Window: quota.Sliding(time.Hour),
			Methods: []string{"search.list", "x"}},
		quota.Budget{Account: account, Name: "except", Limit: 1000, Window: quota.Sliding(time.Hour),
			Except: []string{"search.list"}},
		quota.Budget{Account: account, Name: "lanes", Limit: 1000, Window: quota.Sliding(time.Hour),
			Lanes: []string{"cron"}},
		quota.Budget{Account: account, Name: "regions", Limit: 1000, Window: quota.Sliding(time.Hour),
			Regions: []string{"IN", "BR"}, Measure: quota.Calls},
		quota.Budget{Account: "other", Name: "all", Limit: 1000, Window: quota.Sliding(time.Hour)},
	)
	ctx := quota.WithCaller(t.Context(), quota.Caller{Lane: "cron", Region: "IN"})
	search := call("search.list", 100)
	search.Caller.Region = "BR" // the call's own region overrides that of the context
	for _, c := range []quota.Call{search, call("videos.list", 1)} {
		if _, err := guard.Spend(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := guard.Spend(t.Context(), call("search.list", 7)); err != nil {
		t.Fatal(err)
	}
	balances, err := guard.Balances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]quota.Units{"all": 108, "methods": 107, "except": 1, "lanes": 101, "regions": 2, "other/all": 0}
	for _, b := range balances {
		name := b.Budget.Name
		if b.Budget.Account == "other" {
			name = "other/all"
		}
		if b.Used != want[name] || b.Remaining != 1000-want[name] {
			t.Errorf("%s: used %d, remaining %d; want %d used", name, b.Used, b.Remaining, want[name])
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 21, 5, 55, 12, 120_000_000, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("youtube", 9500, 3*time.Hour+12*time.Minute)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	guard.Spend(ctx, call("search.list", 9488))
	_, err = guard.Spend(ctx, call("search.list", 100))
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || !errors.Is(err, quota.ErrRefused) || errors.Is(err, quota.ErrNeverFits) {
		t.Fatalf("got %v", err)
	}
	if got, want := err.Error(),
		"youtube has 12 of 9500 units left, search.list needs 100; "+
			"try again at 2026-11-21T09:07:12Z (in 3h12m)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if refused.Remaining != 12 || refused.Limit != 9500 || refused.Needed != 100 ||
		refused.RetryAfter != 3*time.Hour+12*time.Minute {
		t.Errorf("got %+v", refused)
	}
	_, err = guard.Spend(ctx, call("search.list", 9501))
	if !errors.Is(err, quota.ErrNeverFits) || errors.Is(err, quota.ErrRefused) ||
		!strings.Contains(err.Error(), "never fits") {
		t.Errorf("above the limit: %v", err)
	}
	if _, err = guard.Spend(ctx, call("search.list", 0)); !errors.Is(err, quota.ErrBadCall) {
		t.Errorf("no units: %v", err)
	}
	_, err = guard.Spend(ctx, quota.Call{Units: 1})
	if fmt.Sprint(err) != "quota: bad call: no account; name the upstream project whose quota it is" {
		t.Errorf("no account and no method: %v", err)
	}
	if err := guard.Cool(ctx, quota.Cooldown{Account: account, Until: clock.Now().Add(24 * time.Hour),
		Reason: "quota\x1b[2J exceeded"}); err != nil {
		t.Fatal(err)
	}
	_, err = guard.Spend(ctx, call("videos.list", 1))
	if got, want := fmt.Sprint(err),
		`my-project is in cooldown (quota\x1b[2J exceeded), videos.list must wait; try again at `+
			`2026-11-22T05:55:12Z (in 24h)`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLongestLabelsAreAccepted: MaxLabel and MaxUnits are valid, one more
// is not.
func TestLongestLabelsAreAccepted(t *testing.T) {
	label := strings.Repeat("x", quota.MaxLabel)
	longest := quota.Note{Call: quota.Call{Account: account, Method: label, Units: quota.MaxUnits,
		Caller: quota.Caller{Lane: label, Job: label, Region: label}}, Calls: quota.MaxUnits}
	guard := newGuard(t, nil)
	if err := guard.Note(t.Context(), longest); err != nil {
		t.Errorf("the longest labels: %v", err)
	}
	for name, change := range map[string]func(*quota.Note){
		"account": func(n *quota.Note) { n.Account = "" },
		"key":     func(n *quota.Note) { n.Key = label + label + label },
		"method":  func(n *quota.Note) { n.Method += "x" },
		"lane":    func(n *quota.Note) { n.Caller.Lane += "x" },
		"job":     func(n *quota.Note) { n.Caller.Job += "x" },
		"region":  func(n *quota.Note) { n.Caller.Region += "x" },
		"units":   func(n *quota.Note) { n.Units++ },
		"calls":   func(n *quota.Note) { n.Calls++ },
		"kind":    func(n *quota.Note) { n.Kind = quota.EntryRefunded },
	} {
		bad := longest
		change(&bad)
		if err := guard.Note(t.Context(), bad); !errors.Is(err, quota.ErrBadCall) {
			t.Errorf("a %s beyond its bound: %v; want ErrBadCall", name, err)
		}
	}
}

// TestRefusalByAWrongClockGivesNoTime: RetryAt does not hold while the
// newest entry is stamped ahead.
func TestRefusalByAWrongClockGivesNoTime(t *testing.T) {
	refused := quota.RefusedError{Budget: "day", Method: "m", Limit: 10, Needed: 1, Ahead: 48 * time.Hour}
	const want = "day has 0 of 10 units left, m needs 1; its newest entry is stamped 48h ahead of the ledger's " +
		"clock; correct the clock; the next call then corrects the timestamps"
	if got := refused.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestCooldownByAWrongClockSaysSo: the refusal named the year 2036, and not the
// clock that was wrong.
func TestCooldownByAWrongClockSaysSo(t *testing.T) {
	at := time.Date(2036, 11, 20, 12, 0, 0, 0, time.UTC)
	refused := quota.RefusedError{Budget: "day", Method: "m", Reason: quota.ReasonCooldown, Detail: "slow", RetryAt: at,
		RetryAfter: 87_600 * time.Hour, Ahead: 87_600 * time.Hour}
	const want = "day is in cooldown (slow), m must wait; try again at 2036-11-20T12:00:00Z (in 87600h); its newest " +
		"entry is stamped 87600h ahead of the ledger's clock; correct the clock; the next call then corrects the " +
		"timestamps"
	if got := refused.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestGrantsSettleAndRefund(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 100, time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	grant, err := guard.Spend(ctx, call("m", 100))
	if err != nil || grant.ID() == "" {
		t.Fatal(grant.ID(), err)
	}
	cancel() // does not cancel what has happened
	for _, step := range []struct {
		do   func() error
		used quota.Units
	}{
		{func() error { return grant.Settle(ctx, 40) }, 40},
		{func() error { return grant.Settle(ctx, 40) }, 40},
		{func() error { return grant.Refund(ctx) }, 0},
		{func() error { return grant.Settle(ctx, 40) }, 40},
		{func() error { return grant.Settle(ctx, 150) }, 150},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := used(t, guard); got != step.used {
			t.Fatalf("used %d; want %d", got, step.used)
		}
	}
	if err := grant.Settle(ctx, -1); !errors.Is(err, quota.ErrBadCall) {
		t.Errorf("settled to -1: %v", err)
	}
	var none *quota.Grant
	if none.ID() != "" || none.Settle(ctx, 4) != nil || none.Refund(ctx) != nil {
		t.Error("a nil Grant must do nothing")
	}
}

// TestNotesAreNotCalls records notes and corrections in a log whose budgets
// are spent.
func TestNotesAreNotCalls(t *testing.T) {
	calls := budget("calls", 1, time.Hour)
	calls.Measure = quota.Calls
	ledger := memledger.Open(nil)
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10, time.Hour), calls}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), call("m", 10)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quota.WithCaller(t.Context(), quota.Caller{Lane: "manual"}))
	cancel() // does not cancel the note
	for _, units := range []quota.Units{0, 7} {
		if err := guard.Note(ctx, quota.Note{Call: call("note", units)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := guard.Note(ctx, quota.Note{Call: call("note", -1)}); !errors.Is(err, quota.ErrBadCall) {
		t.Errorf("a note of -1 units: %v; want ErrBadCall", err)
	}
	var log []quota.Entry
	for e := range guard.Entries(t.Context(), quota.Query{Account: account}) {
		log = append(log, e)
	}
	if len(log) != 3 || log[1].Units != 0 || log[1].Calls != 0 || log[2].Units != 7 || log[2].Calls != 0 ||
		log[2].Caller.Lane != "manual" {
		t.Errorf("log %+v; want the call and both notes", log)
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[0].Used != 17 || balances[1].Used != 1 {
		t.Errorf("balances %+v, %v; want 17 units and 1 call", balances, err)
	}
}

// TestRecordIgnoresCooldowns: a call that has happened is recorded despite
// budgets and cooldowns, for the caller of the context.
func TestRecordIgnoresCooldowns(t *testing.T) {
	ledger := memledger.Open(nil)
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 5, time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []quota.Cooldown{{Account: account, For: time.Hour},
		{Account: account, Budget: "day", For: time.Hour}} {
		if err := guard.Cool(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(quota.WithCaller(t.Context(),
		quota.Caller{Lane: "cron", Job: "trending", Region: "IN"}))
	cancel()
	if _, err := guard.Spend(t.Context(), call("m", 1)); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("a call in a cooldown: %v", err)
	}
	recorded := call("m", 10)
	recorded.Caller.Region = "BR"
	if _, err := quota.Record(guard, ctx, recorded); err != nil {
		t.Fatal(err)
	}
	for e, err := range guard.Entries(t.Context(), quota.Query{Account: account}) {
		if want := (quota.Caller{Lane: "cron", Job: "trending", Region: "BR"}); err != nil || e.Caller != want ||
			e.Units != 10 || e.Calls != 1 || e.Kind != quota.EntryCall {
			t.Errorf("%+v, %v; want a call of %+v", e, err, want)
		}
	}
	if used(t, guard) != 10 {
		t.Errorf("%d units; want 10", used(t, guard))
	}
	for _, budget := range []string{"", "day"} {
		if err := guard.ClearCooldown(t.Context(), account, budget); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := guard.Spend(t.Context(), call("m", 1)); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("beyond the limit: %v", err)
	}
}

// TestRefusalsNameTheCaller: a refusal has the cost and the caller of the
// refused call, even if the guard cached it for another job's call.
func TestRefusalsNameTheCaller(t *testing.T) {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{budget("day", 10, 24*time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), call("m", 8)); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"one", "two"} {
		caller := quota.Caller{Lane: "cron", Job: job, Region: "IN"}
		_, err := guard.Spend(quota.WithCaller(t.Context(), caller), call("m", 5))
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || refused.Caller != caller || refused.Units != 5 {
			t.Errorf("%s: %+v; want its caller and 5 units", job, err)
		}
		if ok && refused.Short() != "day has 2 of 10 units left, m needs 5" ||
			!strings.HasPrefix(err.Error(), refused.Short()+"; try again at ") {
			t.Errorf("%s: %q, in short %q", job, err, refused.Short())
		}
	}
}
