package quota_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// oneBudget returns a guard with one budget in memory: 1000 units a day.
func oneBudget() *quota.Guard {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	return guard
}

// Budgets are plain values. This account has 10,000 units a day, counted
// from midnight in California, of which searches may take 4,000, and 600
// calls a minute.
func ExampleNewGuard() {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		log.Fatal(err)
	}
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "day", Limit: 10_000, Window: quota.Daily(pacific)},
		{Account: "my-project", Name: "searches", Limit: 4000, Window: quota.Daily(pacific),
			Methods: []string{"search.list"}},
		{Account: "my-project", Name: "minute", Limit: 600, Window: quota.Sliding(time.Minute), Measure: quota.Calls},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, method := range []string{"search.list", "videos.list"} {
		fmt.Print(method, ":")
		for _, budget := range guard.Covering(quota.Call{Account: "my-project", Method: method, Units: 1}) {
			fmt.Print(" ", budget.Name)
		}
		fmt.Println()
	}
	// Output:
	// search.list: day searches minute
	// videos.list: day minute
}

// A call whose cost is known only afterwards is charged the most that it may
// cost, and then settled to its real cost.
func ExampleGuard_Spend() {
	guard, ctx := oneBudget(), context.Background()
	grant, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 100})
	if err != nil {
		log.Fatal(err) // the call must not be made
	}
	cost := quota.Units(40) // make the call, and read from its answer what it cost
	if err := grant.Settle(ctx, cost); err != nil {
		log.Print(err) // 100 units stay charged
	}
	balances, err := guard.Balances(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(balances[0].Used, "used,", balances[0].Remaining, "left")
	// Output: 40 used, 960 left
}

// A call that was not made after all gets its units back.
func ExampleGrant_Refund() {
	guard, ctx := oneBudget(), context.Background()
	grant, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 100})
	if err != nil {
		log.Fatal(err)
	}
	if err := grant.Refund(ctx); err != nil {
		log.Print(err)
	}
	balances, err := guard.Balances(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(balances[0].Remaining, "left")
	// Output: 1000 left
}

// Wait waits while the budget frees the units soon enough, and refuses a longer
// wait at once.
func ExampleGuard_Wait() {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "burst", Limit: 2, Window: quota.Sliding(50 * time.Millisecond),
			Methods: []string{"list"}},
		{Account: "my-project", Name: "day", Limit: 1, Window: quota.Sliding(24 * time.Hour),
			Methods: []string{"export"}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, method := range []string{"list", "list", "list", "export", "export"} {
		_, err := guard.Wait(context.Background(), quota.Call{Account: "my-project", Method: method, Units: 1},
			10*time.Second)
		switch {
		case err == nil:
			fmt.Println(method, "granted")
		case errors.Is(err, quota.ErrRefused):
			fmt.Println(method, "refused")
		default:
			log.Fatal(err)
		}
	}
	// Output:
	// list granted
	// list granted
	// list granted
	// export granted
	// export refused
}

// Probe checks whether a call would be granted now, and charges nothing.
func ExampleGuard_Probe() {
	guard, ctx := oneBudget(), context.Background()
	for _, units := range []quota.Units{400, 2000} {
		err := guard.Probe(ctx, quota.Call{Account: "my-project", Method: "report", Units: units})
		fmt.Println(units, "units fit:", err == nil, "- ever:", !errors.Is(err, quota.ErrNeverFits))
	}
	// Output:
	// 400 units fit: true - ever: true
	// 2000 units fit: false - ever: false
}

// A refusal names the budget, the units missing and the retry time.
func ExampleRefusedError() {
	guard, ctx := oneBudget(), context.Background()
	if _, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 950}); err != nil {
		log.Fatal(err)
	}
	_, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 100})
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		fmt.Printf("%s has %d of %d left, %s needs %d\n", refused.Budget, refused.Remaining, refused.Limit,
			refused.Method, refused.Needed)
		fmt.Println("come back in", refused.RetryAfter.Round(time.Hour)) // or at refused.RetryAt
	}
	// Output:
	// day has 50 of 1000 left, report needs 100
	// come back in 24h0m0s
}

// A Transport charges each request of a client before it is sent. Price is
// usually that of a costs.yaml; package costs/client wires that up with
// everything else the file names.
func ExampleTransport() {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	price := func(*http.Request) (quota.Call, error) {
		return quota.Call{Account: "my-project", Method: "get", Units: 600}, nil
	}
	client := &http.Client{Transport: &quota.Transport{Guard: oneBudget(), Price: price, MaxWait: 30 * time.Second}}
	for range 2 {
		resp, err := client.Get(upstream.URL)
		if errors.Is(err, quota.ErrRefused) {
			fmt.Println("refused before it was sent")
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.Status)
		resp.Body.Close()
	}
	// Output:
	// 404 Not Found
	// refused before it was sent
}

// Price returns the method and cost of a request. This one refuses unknown
// requests to the guarded host, and lets requests to other hosts pass.
func ExampleTransport_price() {
	price := func(req *http.Request) (quota.Call, error) {
		call := quota.Call{Account: "my-project", Units: 1}
		switch {
		case req.URL.Host != "api.example.com":
			return call, quota.ErrUnguarded
		case strings.HasPrefix(req.URL.Path, "/exports/"):
			call.Method, call.Units = "export", 50
		case req.Method == http.MethodGet:
			call.Method = "read"
		default:
			return call, fmt.Errorf("no price for %s %s", req.Method, req.URL.Path)
		}
		return call, nil
	}
	for _, url := range []string{"https://api.example.com/items", "https://api.example.com/exports/7",
		"https://example.org/"} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			log.Fatal(err)
		}
		call, err := price(req) // as quota.Transport{Price: price} does
		fmt.Println(call.Method, call.Units, err)
	}
	// Output:
	// read 1 <nil>
	// export 50 <nil>
	//  1 quota: not a guarded host
}

// WithCaller sets the caller of calls. Budgets may cover only some lanes or
// regions, and the log records the caller of each call.
func ExampleWithCaller() {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "all", Limit: 1000, Window: quota.Sliding(24 * time.Hour)},
		{Account: "my-project", Name: "backfill", Limit: 100, Window: quota.Sliding(24 * time.Hour),
			Lanes: []string{"backfill"}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, lane := range []string{"cron", "backfill"} {
		ctx := quota.WithCaller(context.Background(), quota.Caller{Lane: lane, Job: "nightly", Region: "IN"})
		_, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 80})
		if err == nil {
			_, err = guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 80})
		}
		fmt.Println(lane, "refused:", errors.Is(err, quota.ErrRefused))
	}
	// Output:
	// cron refused: false
	// backfill refused: true
}

// A cooldown stops all processes that share the ledger, until it ends or is
// cleared. A Transport with Feedback sets one when the upstream's answer asks
// for it.
func ExampleGuard_Cool() {
	guard, ctx := oneBudget(), context.Background()
	err := guard.Cool(ctx, quota.Cooldown{Account: "my-project", For: time.Hour, Reason: "503 from the upstream"})
	if err != nil {
		log.Fatal(err)
	}
	call := quota.Call{Account: "my-project", Method: "report", Units: 1}
	_, err = guard.Spend(ctx, call)
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		fmt.Println(refused.Reason, "-", refused.Detail)
	}
	if err := guard.ClearCooldown(ctx, "my-project", ""); err != nil {
		log.Fatal(err)
	}
	_, err = guard.Spend(ctx, call)
	fmt.Println(err)
	// Output:
	// cooldown - 503 from the upstream
	// <nil>
}
