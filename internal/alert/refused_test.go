package alert_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/quota"
)

// TestRefusalsAreToldOnceAndTheirEndToo, by whichever of several processes
// checks first; a later refusal is told again.
func TestRefusalsAreToldOnceAndTheirEndToo(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t, 0)
	c := newClient(t, "{webhook: "+r.URL+", on: [refused]}", sqlite(dir), t.TempDir())
	other := newClient(t, "{webhook: "+r.URL+", on: [refused]}", sqlite(dir), t.TempDir())
	watches := []*alert.Watch{alert.New(c, nil).Impatient(), alert.New(other, nil).Impatient()}
	check := func(want string) {
		t.Helper()
		var wg sync.WaitGroup
		for _, w := range watches {
			wg.Go(func() { w.Check(t.Context()) })
		}
		wg.Wait()
		texts := strings.Join(r.texts(), "\n")
		if texts != want && (want == "" || strings.Contains(texts, "\n") || !strings.Contains(texts, want)) {
			t.Fatalf("%q; want one with %q", texts, want)
		}
	}
	call := quota.Call{Account: "p", Method: "list", Units: 100}
	for _, process := range []*client.Client{c, other} { // each records its first refusal
		grant, err := c.Guard().Spend(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		check("")
		if _, err := process.Guard().Spend(t.Context(),
			quota.Call{Account: "p", Method: "list", Units: 1}); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", err)
		}
		check("p: all list calls refused since ")
		check("")
		if err := grant.Settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		check("day of p grants calls again")
		check("")
	}
}

// TestARejectedKeyIsTold once, whatever else is on.
func TestARejectedKeyIsTold(t *testing.T) {
	r := newReceiver(t, 0)
	c := newClient(t, "{webhook: "+r.URL+", on: [credential]}", sqlite(t.TempDir()), t.TempDir())
	w := alert.New(c, nil).Impatient()
	w.Reported(quota.Call{Account: "p"}, &client.RejectedError{Account: "p", Host: "api.example.com", Status: 401,
		Reason: "expired"})
	w.Reported(quota.Call{Account: "p"}, &client.RejectedError{Account: "p", Host: "api.example.com", Status: 401})
	w.Check(t.Context())
	if texts := r.texts(); len(texts) != 1 ||
		!strings.Contains(texts[0],
			"api.example.com rejects the credential of account p with 401 Unauthorized: expired") {
		t.Errorf("%q; want one", texts)
	}
}

// TestATestReachesEveryAddress, or names the one that it does not.
func TestATestReachesEveryAddress(t *testing.T) {
	r := newReceiver(t, 0)
	c := newClient(t, "{webhook: "+r.URL+"}", sqlite(t.TempDir()), t.TempDir())
	reached, err := alert.New(c, nil).Impatient().Test(t.Context())
	if texts := r.texts(); err != nil || len(reached) != 1 || len(texts) != 1 ||
		!strings.Contains(texts[0], "this is a test of the alerts of account p") {
		t.Errorf("%q, %v: %q; want one", reached, err, texts)
	}
	c = newClient(t, "{command: /nowhere/page.sh}", sqlite(t.TempDir()), t.TempDir())
	if reached, err := alert.New(c, nil).Impatient().Test(t.Context()); len(reached) != 0 || err == nil ||
		!strings.Contains(err.Error(), "alert of account p: /nowhere/page.sh") {
		t.Errorf("%q, %v; want an error that names the command", reached, err)
	}
}
