package inbound_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/ration-dev/ration/quota/inbound"
)

// A server limits its clients to 2 requests a second and 3,000 in 10 minutes.
// It believes X-Forwarded-For from its own proxies only.
func Example() {
	clock := func() time.Time { return time.Unix(1_800_000_000, 0) }
	limiter, err := inbound.New(inbound.Memory(), []inbound.Limit{
		{Calls: 2, Per: time.Second},
		{Calls: 3000, Per: 10 * time.Minute},
	}, &inbound.Options{
		Client: inbound.Address(netip.MustParsePrefix("127.0.0.0/8")),
		Now:    clock, // in a server: nil
	})
	if err != nil {
		log.Fatal(err)
	}
	search := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(limiter.Handler(search))
	defer server.Close()

	for _, client := range []string{"198.51.100.7", "198.51.100.7", "198.51.100.7", "203.0.113.1"} {
		req, err := http.NewRequest("GET", server.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", client)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		left, retry := resp.Header.Get("X-RateLimit-Remaining"), resp.Header.Get("Retry-After")
		fmt.Printf("%s %d, %s left, retry after %q\n", client, resp.StatusCode, left, retry)
	}
	// Output:
	// 198.51.100.7 200, 1 left, retry after ""
	// 198.51.100.7 200, 0 left, retry after ""
	// 198.51.100.7 429, 0 left, retry after "1"
	// 203.0.113.1 200, 1 left, retry after ""
}
