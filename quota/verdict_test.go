package quota_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// answering returns a client whose upstream's answers all have one verdict, and
// what it reports.
func answering(guard *quota.Guard, price quota.Units, v quota.Verdict) (*http.Client, *[]error) {
	reports := &[]error{}
	base := tripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
	})
	return &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(price), Base: base,
		Report:   func(_ quota.Call, err error) { *reports = append(*reports, err) },
		Feedback: func(quota.Call, *http.Response) quota.Verdict { return v }}}, reports
}

// TestCostHeadersAreBounded settles calls to the costs in answers.
func TestCostHeadersAreBounded(t *testing.T) {
	documented := func(units quota.Units) quota.Verdict { return quota.Verdict{Settled: true, Units: units} }
	guessed := func(units quota.Units) quota.Verdict {
		return quota.Verdict{Settled: true, Undocumented: true, Units: units}
	}
	for _, c := range []struct {
		name     string
		verdict  quota.Verdict
		price    quota.Units
		used     quota.Units
		reported bool
	}{
		{"nothing, undocumented", guessed(0), 7, 7, true},
		{"less, undocumented", guessed(6), 7, 7, true},
		{"the price, undocumented", guessed(7), 7, 7, false},
		{"tenfold, undocumented", guessed(70), 7, 70, false},
		{"more, undocumented", guessed(71), 7, 70, true},
		{"all there is, undocumented", guessed(quota.MaxUnits), 7, 70, true},
		{"tenfold of much, undocumented", guessed(quota.MaxUnits), 400, 4000, true},
		{"nothing", documented(0), 7, 0, false},
		{"less", documented(3), 7, 3, false},
		{"more", documented(999), 7, 999, false},
		{"the whole limit", documented(1000), 7, 1000, false},
		{"beyond the lowest limit", documented(10_005), 7, 10_005, false},
		{"below nothing", documented(-5), 7, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			search := quota.Budget{Account: account, Name: "search", Limit: 10, Window: quota.Sliding(time.Hour),
				Methods: []string{"search"}}
			calls := quota.Budget{Account: account, Name: "calls", Limit: 5, Window: quota.Sliding(time.Hour),
				Measure: quota.Calls}
			guard := newGuard(t, nil, budget("day", 5000, 24*time.Hour), budget("hour", 1000, time.Hour), search, calls)
			client, reports := answering(guard, c.price, c.verdict)
			for i := range 2 {
				resp, err := client.Get("http://upstream/m")
				if i == 0 && err != nil {
					t.Fatal(err)
				}
				if err == nil {
					resp.Body.Close()
				}
				if i == 0 && used(t, guard) != c.used {
					t.Errorf("%d units; want %d", used(t, guard), c.used)
				}
			}
			if (len(*reports) == 1) != c.reported || len(*reports) > 1 {
				t.Fatalf("reported %v; want once %t", *reports, c.reported)
			}
			if !c.reported {
				return
			}
			cost, ok := errors.AsType[*quota.CostError]((*reports)[0])
			if !ok || cost.Cost != c.verdict.Units || cost.Price != c.price || cost.Charged != c.used ||
				cost.Method != "m" || !strings.Contains(cost.Error(), "correct the price") {
				t.Errorf("reported %v (%+v)", (*reports)[0], cost)
			}
		})
	}
}

// TestADifferentLimitIsReportedOnce: an upstream's limit that is far from a
// budget's is reported once per process.
func TestADifferentLimitIsReportedOnce(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 2400, 24*time.Hour), budget("other", 5000, 24*time.Hour))
	for _, c := range []struct {
		verdict quota.Verdict
		says    string
	}{
		{quota.Verdict{LimitOf: "day", Limit: 5000},
			`"day" allows 2400, less than half of the upstream's limit of 5000, so what other programs spend of ` +
				`that goes unnoticed; raise the budget's limit to 2500`},
		{quota.Verdict{LimitOf: "day", Limit: 5000}, ""},
		{quota.Verdict{LimitOf: "other", Limit: 60},
			`"other" allows 5000, but the upstream says that a limit is 60; if it is the same limit, check that the ` +
				`calls carry the right credentials, or lower the budget's to 60`},
		{quota.Verdict{LimitOf: "other", Limit: 61}, ""},
		{quota.Verdict{LimitOf: "another", Limit: 60}, ""},
		{quota.Verdict{}, ""},
	} {
		client, reports := answering(guard, 1, c.verdict) // each has a Transport of its own
		for range 3 {
			resp, err := client.Get("http://upstream/m")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		if c.says == "" && len(*reports) > 0 || c.says != "" &&
			(len(*reports) != 1 || !strings.Contains((*reports)[0].Error(), c.says)) {
			t.Errorf("%+v: reported %v; want %q", c.verdict, *reports, c.says)
		}
	}
	same := quota.Verdict{LimitOf: "day", Limit: 2400}
	client, reports := answering(newGuard(t, nil, budget("day", 2400, 24*time.Hour)), 1, same)
	if _, err := client.Get("http://upstream/m"); err != nil || len(*reports) > 0 {
		t.Errorf("the same limit: %v, reported %v", err, *reports)
	}
}

// TestFeedbackOfUnknownBudgetsChangesNothing: an answer may name unknown
// budgets and impossible amounts.
func TestFeedbackOfUnknownBudgetsChangesNothing(t *testing.T) {
	lane := budget("lane", 100, time.Hour)
	lane.Lanes = []string{"cron"}
	for _, v := range []quota.Verdict{
		{LeftOf: "another", Left: 1}, {LeftOf: "day", Left: -1}, {LeftOf: "day", Left: 100},
		{LeftOf: "day", Left: 5000}, {LeftOf: "lane", Left: 1},
	} {
		guard := newGuard(t, nil, budget("day", 100, time.Hour), lane)
		client, reports := answering(guard, 1, v)
		resp, err := client.Get("http://upstream/m")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		client.CloseIdleConnections()
		if used(t, guard) != 1 || len(*reports) > 0 {
			t.Errorf("%+v: %d units, reported %v; want the call alone", v, used(t, guard), *reports)
		}
	}
}

// TestCooldownsNameTheCaller checks the reason that other processes see.
func TestCooldownsNameTheCaller(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, c := range []struct {
		caller       quota.Caller
		reason, want string
	}{
		{quota.Caller{Lane: "cron", Job: "trending", Region: "IN"}, "403 quotaExceeded",
			"403 quotaExceeded (cron/trending IN)"},
		{quota.Caller{Lane: "manual"}, "403 quotaExceeded", "403 quotaExceeded (manual)"},
		{quota.Caller{Region: "US"}, "", " (US)"},
		{quota.Caller{Job: "nightly"}, "403 quotaExceeded", "403 quotaExceeded (nightly)"},
		{quota.Caller{}, "403 quotaExceeded", "403 quotaExceeded"},
		{quota.Caller{Lane: "cron", Job: "trending"}, long, long[:184] + " (cron/trending)"},
		{quota.Caller{Lane: long[:128], Job: "x"}, long, long[:96] + " (" + long[:100] + ")"},
	} {
		up := newUpstream(t, nil)
		guard := newGuard(t, nil, budget("day", 100, time.Hour))
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1),
			Feedback: func(quota.Call, *http.Response) quota.Verdict {
				return quota.Verdict{For: time.Minute, Reason: c.reason}
			}}}
		req, _ := http.NewRequestWithContext(quota.WithCaller(t.Context(), c.caller), "GET", up.URL, nil)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		balances, err := guard.Balances(t.Context())
		if err != nil || balances[0].Cooldown == nil {
			t.Fatalf("%+v, %v; want a cooldown", balances, err)
		}
		if got := balances[0].Cooldown.Reason; got != c.want || len(got) > 200 {
			t.Errorf("%+v: %q; want %q", c.caller, got, c.want)
		}
	}
}

// TestNeverIsNeitherCooledNorRetried has an upstream whose quota is 0.
func TestNeverIsNeitherCooledNorRetried(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 100, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Retries: 3, MaxWait: time.Minute,
		Feedback: func(quota.Call, *http.Response) quota.Verdict {
			return quota.Verdict{Never: true, Transient: true, For: time.Minute}
		}}}
	for range 2 {
		resp, err := client.Get(up.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if up.hits.Load() != 2 || used(t, guard) != 2 {
		t.Errorf("%d requests, %d units; want 2", up.hits.Load(), used(t, guard))
	}
}
