package quota_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestAGuardedDefaultTransportDoesNotRecurse sets http.DefaultTransport to a
// Transport without a Base, directly and wrapped. This once recursed until the
// budget was spent.
func TestAGuardedDefaultTransportDoesNotRecurse(t *testing.T) {
	original := http.DefaultTransport
	defer func() { http.DefaultTransport = original }()
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"itself":                   func(r http.RoundTripper) http.RoundTripper { return r },
		"behind one that unwraps":  func(r http.RoundTripper) http.RoundTripper { return unwrapping{r} },
		"behind one that does not": func(r http.RoundTripper) http.RoundTripper { return opaque{r} },
		"behind a guard of another account": func(r http.RoundTripper) http.RoundTripper {
			return &quota.Transport{Guard: newGuard(t, nil), Base: r, Price: func(*http.Request) (quota.Call, error) {
				return quota.Call{Account: "another", Method: "m", Units: 1}, nil
			}}
		},
	} {
		for _, price := range []func(*http.Request) (quota.Call, error){
			priced(1),
			func(*http.Request) (quota.Call, error) { return quota.Call{}, quota.ErrUnguarded },
		} {
			guard := newGuard(t, nil, budget("day", 9500, time.Hour))
			charged := 0
			transport := &quota.Transport{Guard: guard, Price: price,
				Charged: func(quota.Call, int, quota.Units) { charged++ }}
			http.DefaultTransport = wrap(transport)
			_, err := (&http.Client{Transport: transport}).Get("http://127.0.0.1:1/x")
			if charged > 0 && name != "behind one that does not" {
				t.Errorf("%s: charged and refunded; want it refused before it is charged", name)
			}
			if !errors.Is(err, quota.ErrGuardedTwice) || !strings.Contains(err.Error(), "set Base to") ||
				used(t, guard) != 0 {
				t.Errorf("%s: %v, %d units; want an error that says what to do, and none", name, err, used(t, guard))
			}
			if _, err = http.Get("http://127.0.0.1:1/x"); !errors.Is(err, quota.ErrGuardedTwice) ||
				used(t, guard) != 0 {
				t.Errorf("%s, by http.Get: %v, %d units", name, err, used(t, guard))
			}
			transport.CloseIdleConnections()
		}
	}
}

// TestWrappingTwiceChargesOnce chains Transports.
func TestWrappingTwiceChargesOnce(t *testing.T) {
	up := newUpstream(t, nil)
	guard, same := newGuard(t, nil, budget("day", 100, time.Hour)), newGuard(t, nil, budget("day", 100, time.Hour))
	other := func(*http.Request) (quota.Call, error) {
		return quota.Call{Account: "another", Method: "m", Units: 1}, nil
	}
	unguarded := func(*http.Request) (quota.Call, error) { return quota.Call{}, quota.ErrUnguarded }
	layered := func(r http.RoundTripper) http.RoundTripper { return opaque{unwrapping{opaque{r}}} }
	plain := func(r http.RoundTripper) http.RoundTripper { return r }
	known := func(r http.RoundTripper) http.RoundTripper { return unwrapping{unwrapping{r}} }
	for name, c := range map[string]struct {
		guard *quota.Guard
		price func(*http.Request) (quota.Call, error)
		wrap  func(http.RoundTripper) http.RoundTripper
		fine  bool
	}{
		"the same guard":                              {guard, priced(1), plain, false},
		"the same guard, behind others":               {guard, priced(1), layered, false},
		"the same guard, behind others, which unwrap": {guard, priced(1), known, false},
		"another guard of the account":                {same, priced(1), plain, false},
		"another guard of it, behind others":          {same, priced(1), layered, false},
		"another account":                             {guard, other, plain, true},
		"another account, behind others":              {guard, other, layered, true},
		"one that the request passes":                 {guard, unguarded, plain, true},
		"one that it passes, behind others":           {guard, unguarded, layered, true},
	} {
		before, hits := used(t, guard)+used(t, same), up.hits.Load()
		inner := &quota.Transport{Guard: c.guard, Price: c.price, Base: &http.Transport{}}
		reported := 0
		resp, err := (&http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: c.wrap(inner),
			Charged: func(quota.Call, int, quota.Units) { reported++ }}}).Get(up.URL)
		if err == nil {
			resp.Body.Close()
		}
		charged := used(t, guard) + used(t, same) - before
		if fine := err == nil && charged == 1 && up.hits.Load() == hits+1; c.fine && !fine {
			t.Errorf("%s: %v, %d units; want it sent, and charged once", name, err, charged)
		}
		if known := strings.Contains(name, "which unwrap") || !strings.Contains(name, "behind"); known && !c.fine &&
			reported > 0 {
			t.Errorf("%s: it was charged, and refunded; want it refused before", name)
		}
		if !c.fine && (!errors.Is(err, quota.ErrGuardedTwice) || !strings.Contains(err.Error(), `"my-project"`) ||
			charged != 0 || up.hits.Load() != hits) {
			t.Errorf("%s: %v, %d units; want an error that names the account, and nothing charged", name, err, charged)
		}
	}
}

// TestRequestsMadeFromAnAnswerAreTheirOwn: a request that a caller derives from
// the request of a response is not that request guarded twice.
func TestRequestsMadeFromAnAnswerAreTheirOwn(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 100, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: &http.Transport{}}}
	type key struct{}
	req, _ := http.NewRequestWithContext(context.WithValue(t.Context(), key{}, 1), "GET", up.URL, nil)
	for range 3 {
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.Request != req {
			t.Error("the answer is to another request than the caller's")
		}
		req = resp.Request.Clone(resp.Request.Context())
	}
	if used(t, guard) != 3 {
		t.Errorf("%d units; want 3", used(t, guard))
	}
}
