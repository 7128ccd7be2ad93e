package usage_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestReconcileIsRefusedAtABoundary: within the margins of a boundary a
// correction would count into both days.
func TestReconcileIsRefusedAtABoundary(t *testing.T) {
	for _, c := range []struct {
		window quota.Window
		at     string
		until  string // empty: accepted
	}{
		{quota.Daily(time.UTC), "2026-11-20T23:59:29Z", ""},
		{quota.Daily(time.UTC), "2026-11-20T23:59:30Z", "2026-11-21T00:00:30Z"},
		{quota.Daily(time.UTC), "2026-11-21T00:00:29Z", "2026-11-21T00:00:30Z"},
		{quota.Daily(time.UTC), "2026-11-21T00:00:30Z", ""},
		{quota.Monthly(time.UTC), "2026-11-20T23:59:59Z", ""},
		{quota.Monthly(time.UTC).WithMargin(time.Hour), "2026-11-30T23:00:00Z", "2026-12-01T01:00:00Z"},
		{quota.Daily(time.UTC).WithMargin(0), "2026-11-21T00:00:00Z", ""},
		{quota.Sliding(time.Hour), "2026-11-21T00:00:00Z", ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return at }})
		s := newReconcileStand(t, ledger, []quota.Budget{{Name: "day", Window: c.window}})
		err = s.reconcile(false, map[string]quota.Units{"day": 10})
		boundary, between := errors.AsType[*usage.BoundaryError](err)
		if c.until == "" && err != nil || c.until != "" &&
			(!between || !strings.HasSuffix(boundary.Error(),
				"day is between two windows, and a correction would count for both; try again at "+c.until)) {
			t.Errorf("%s at %s: %v; want until %q", c.window, c.at, err, c.until)
		}
		if want := map[bool]quota.Units{true: 10}[err == nil]; s.balances()[0].Used != want {
			t.Errorf("%s at %s: %d used; want %d", c.window, c.at, s.balances()[0].Used, want)
		}
	}
}
