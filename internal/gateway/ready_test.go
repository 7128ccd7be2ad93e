package gateway_test

import (
	"net/http"
	"testing"

	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
)

// TestAMovedAccountIsNotReady: readyz said that it was, and every call failed.
func TestAMovedAccountIsNotReady(t *testing.T) {
	u := newUpstream(t, nil)
	c := newClient(t, anyTable, t.TempDir(), u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	if resp, err := http.Get(s.url + "/readyz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v; want it to be ready", resp, err)
	}
	if err := testledger.CloseAccount(t.Context(), c.Guard().Ledger(),
		quota.MovedError{Account: "my-project", Ledger: "redis://elsewhere:6379/0"}); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.Get(s.url + "/readyz"); err != nil || resp.StatusCode == http.StatusOK {
		t.Errorf("%v, %v; want it not to be ready", resp, err)
	}
}
