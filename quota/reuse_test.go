package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestIDOfACallWithoutALabel: an id does not buy a dearer call, whether the first
// one's method is named as that of calls which a ledger does not know, or a Redis
// ledger has lost it.
func TestIDOfACallWithoutALabel(t *testing.T) {
	list := quota.Call{Account: "my-project", Method: quota.OtherMethod, Units: 1, ID: quota.ID{Client: quota.NewClient(), Seq: 1}}
	insert := list
	insert.Method, insert.Units = "insert", 1600
	server := redistest.Start(t)
	shared, err := redisledger.Open(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		ledger quota.Ledger
		lose   func()
	}{
		"memory":           {memledger.Open(nil), func() {}},
		"Redis":            {shared, func() {}},
		"Redis that loses": {shared, func() { server.Do(t, "del", "ration:{my-project}:meta") }},
	} {
		t.Run(name, func(t *testing.T) {
			guard, err := quota.NewGuard(test.ledger, []quota.Budget{budget("day", 10_000, 24*time.Hour)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := guard.Spend(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			test.lose()
			if _, err := guard.Spend(t.Context(), insert); !errors.Is(err, quota.ErrReused) {
				t.Errorf("another call by the id: %v; want ErrReused", err)
			}
			if _, err := guard.Spend(t.Context(), list); err != nil {
				t.Errorf("the call again: %v", err)
			}
			if n := used(t, guard); n != 1 {
				t.Errorf("%d units are used; want 1", n)
			}
		})
	}
}
