package quota_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// priced is a pricer for any host: the path is the method, and every call
// costs the same.
func priced(units quota.Units) func(*http.Request) (quota.Call, error) {
	return func(r *http.Request) (quota.Call, error) {
		return quota.Call{Account: account, Method: strings.TrimPrefix(r.URL.Path, "/"), Units: units}, nil
	}
}

// upstream counts what reaches it.
type upstream struct {
	*httptest.Server
	hits atomic.Int32
}

func newUpstream(t *testing.T, answer http.HandlerFunc) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.hits.Add(1)
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(u.Close)
	return u
}

// body records whether it was closed.
type body struct {
	io.Reader
	closed atomic.Bool
}

func (b *body) Close() error { b.closed.Store(true); return nil }

func TestTransportRefusesBeforeTheWire(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 250, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(100)}}
	for range 2 {
		resp, err := client.Get(up.URL + "/search.list")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	posted := &body{Reader: strings.NewReader("x")}
	resp, err := client.Post(up.URL+"/search.list", "text/plain", posted)
	no, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || resp != nil || no.Remaining != 50 || no.Needed != 100 || no.Method != "search.list" {
		t.Fatalf("got %v, %v; want the refusal through http.Client", resp, err)
	}
	if !posted.closed.Load() {
		t.Error("the body of a refused request was left open")
	}
	if up.hits.Load() != 2 || used(t, guard) != 200 {
		t.Errorf("%d hits, %d units; want 2 and 200", up.hits.Load(), used(t, guard))
	}
}

func TestATransportWithoutGuardOrPriceSendsNothing(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 250, time.Hour))
	broken := errors.New("no price for this")
	for name, transport := range map[string]*quota.Transport{
		"no guard": {Price: priced(1)},
		"no price": {Guard: guard},
		"a pricer that fails": {Guard: guard, Price: func(*http.Request) (quota.Call, error) {
			return quota.Call{}, broken
		}},
	} {
		posted := &body{Reader: strings.NewReader("x")}
		if _, err := (&http.Client{Transport: transport}).Post(up.URL, "", posted); err == nil ||
			!posted.closed.Load() {
			t.Errorf("%s: error %v, body closed %t; want a refusal and a closed body", name, err, posted.closed.Load())
		}
	}
	for _, pass := range []error{quota.ErrUnguarded, quota.ErrPaid} {
		transport := &quota.Transport{Guard: guard,
			Price: func(*http.Request) (quota.Call, error) { return quota.Call{}, pass }}
		resp, err := (&http.Client{Transport: transport}).Get(up.URL)
		if err != nil {
			t.Fatalf("%v: %v; want it passed through", pass, err)
		}
		resp.Body.Close()
	}
	if up.hits.Load() != 2 || used(t, guard) != 0 {
		t.Errorf("%d hits, %d units; want only the 2 that pass through, uncharged", up.hits.Load(), used(t, guard))
	}
}

func TestTransportChargesEveryHop(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a" {
			http.Redirect(w, r, "/b", http.StatusFound)
		}
	})
	guard := newGuard(t, nil, budget("day", 15, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(5)}}
	resp, err := client.Get(up.URL + "/a")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, err := client.Get(up.URL + "/a"); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("the second hop of what the budget pays once: %v", err)
	}
	if up.hits.Load() != 3 || used(t, guard) != 15 {
		t.Errorf("%d hits, %d units; want 3 and 15", up.hits.Load(), used(t, guard))
	}
}

func TestTransportAppliesFeedback(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 250, time.Hour), budget("other", 250, time.Hour))
	verdicts := map[string]quota.Verdict{
		"cheaper": {Settled: true, Units: 3},
		"dearer":  {Settled: true, Units: 30},
		"fine":    {},
		"stop":    {For: time.Hour, Budget: "day", Reason: "quotaExceeded"},
	}
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10),
		Feedback: func(c quota.Call, r *http.Response) quota.Verdict {
			if r.StatusCode != 200 {
				t.Errorf("status %d", r.StatusCode)
			}
			return verdicts[c.Method]
		}}}
	for _, method := range []string{"cheaper", "dearer", "fine", "stop"} {
		resp, err := client.Get(up.URL + "/" + method)
		if err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		resp.Body.Close()
	}
	_, err := client.Get(up.URL + "/fine")
	no, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || no.Reason != quota.ReasonCooldown || no.Detail != "quotaExceeded" {
		t.Errorf("after the upstream said stop: %v", err)
	}
	if got := used(t, guard); got != 3+30+10+10 || up.hits.Load() != 4 {
		t.Errorf("%d units, %d hits; want 53 and 4", got, up.hits.Load())
	}
}

func TestTransportBoundsTheSumOfItsWaits(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 1, 300*time.Millisecond))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), MaxWait: time.Minute,
		MaxTotalWait: 700 * time.Millisecond}}
	began := time.Now()
	for i := range 20 {
		resp, err := client.Get(up.URL)
		if err != nil {
			if !errors.Is(err, quota.ErrRefused) || i < 2 {
				t.Errorf("request %d: %v", i, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("waited %s in all", took)
			}
			return
		}
		resp.Body.Close()
	}
	t.Error("20 requests waited 300 ms each; want a refusal once they had waited 700 ms together")
}

func TestTransportIsConcurrent(t *testing.T) {
	up := newUpstream(t, nil)
	guard := newGuard(t, nil, budget("day", 50, time.Hour))
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1)}}
	var ok, refused atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				resp, err := client.Get(up.URL)
				switch {
				case err == nil:
					resp.Body.Close()
					ok.Add(1)
				case errors.Is(err, quota.ErrRefused):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if ok.Load() != 50 || refused.Load() != 110 || up.hits.Load() != 50 {
		t.Errorf("%d answered, %d refused, %d reached the upstream; want 50, 110, 50", ok.Load(), refused.Load(),
			up.hits.Load())
	}
}
