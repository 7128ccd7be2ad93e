// Package otel_test shows how OpenTelemetry's spans are put around and inside a
// guarded client. It is a module of its own, so that a guard does not depend on
// OpenTelemetry.
package otel_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// priced adds the account, the method and the units of a request to its span.
type priced struct {
	http.RoundTripper
	price func(*http.Request) (quota.Call, error)
}

func (p priced) RoundTrip(req *http.Request) (*http.Response, error) {
	if call, err := p.price(req); err == nil {
		trace.SpanFromContext(req.Context()).SetAttributes(
			attribute.String("ration.account", call.Account),
			attribute.String("ration.method", call.Method),
			attribute.Int64("ration.units", int64(call.Units)))
	}
	return p.RoundTripper.RoundTrip(req)
}

// A span around the Transport is one request of the program, with its wait for
// units, and fails if the request is refused. A span inside is one attempt that
// the upstream sees.
func Example() {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "day", Limit: 150, Window: quota.Sliding(24 * time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	price := func(*http.Request) (quota.Call, error) { // or costs.Table.Price
		return quota.Call{Account: "my-project", Method: "search.list", Units: 100}, nil
	}
	spans := tracetest.NewSpanRecorder()
	provider := otelhttp.WithTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
	named := func(name string) otelhttp.Option {
		return otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return name })
	}

	inside := otelhttp.NewTransport(priced{http.DefaultTransport, price}, provider, named("sent"))
	guarded := &quota.Transport{Guard: guard, Price: price, Base: inside}
	client := &http.Client{Transport: otelhttp.NewTransport(priced{guarded, price}, provider, named("request"))}

	for range 2 {
		req, err := http.NewRequestWithContext(context.Background(), "GET", upstream.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
		}
	}
	for _, span := range spans.Started() {
		fmt.Print(span.Name(), " ", span.Status().Code, ":")
		for _, a := range span.Attributes() {
			switch a.Key {
			case "ration.account", "ration.method", "ration.units":
				fmt.Print(" ", a.Value.Emit())
			}
		}
		fmt.Println()
	}
	// Output:
	// request Unset: my-project search.list 100
	// sent Unset: my-project search.list 100
	// request Error: my-project search.list 100
}
