package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs/status"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// listedKeys is a ledger that lists keys that the test spends on.
type listedKeys struct {
	quota.Ledger
	keys []string
}

func (l *listedKeys) Keys(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, key := range l.keys {
			if !yield(key, nil) {
				return
			}
		}
	}
}

// TestStatusHidesKeyedLogs: status showed the logs without a key only. It shows
// the ten fullest of each account, by the part of a limit that is used, and looks
// at a bounded number of keys.
func TestStatusHidesKeyedLogs(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 1000, window: 24h}, {name: few, limit: 10, window: 24h, methods: [channels.list]}", "[trending]", "US")
	table, err := costs.Load(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	l := &listedKeys{Ledger: memledger.Open(nil), keys: []string{"ration: corrections", "idle"}}
	guard, err := quota.NewGuard(l, table.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	spend := func(key, method string, units quota.Units) {
		t.Helper()
		if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Key: key, Method: method, Units: units}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range quota.MaxKeys + 5 {
		key := fmt.Sprintf("shop-%05d", i)
		l.keys = append(l.keys, key)
		if i < 12 {
			spend(key, "videos.list", quota.Units(10*i+1))
		}
	}
	spend("shop-00003", "channels.list", 9) // nine tenths of a small budget
	r := &status.Report{}
	if err := r.ReadBudgets(t.Context(), guard, table.Accounts()); err != nil {
		t.Fatal(err)
	}
	if len(r.Keyed) != status.FullestKeys || len(r.MoreKeys) != 1 {
		t.Fatalf("%d keys, more of %v; want ten, and more of p", len(r.Keyed), r.MoreKeys)
	}
	if first, second, last := r.Keyed[0], r.Keyed[1], r.Keyed[9]; first.Key != "shop-00003" || first.Budget != "few" || first.Remaining != 1 || first.Share != 0.9 ||
		second.Key != "shop-00011" || second.Used != 111 || second.NextFreeAt == nil || last.Key != "shop-00002" {
		t.Errorf("%+v, %+v, %+v", first, second, last)
	}
	var out bytes.Buffer
	(&app{stdout: &out, now: time.Now, getenv: func(string) string { return "" }}).keyedTable(r)
	r.Keyed[1].Ahead = 3600
	fmt.Fprintf(&out, "\n%s\n", r.Remarks()[0][0])
	if want := "\nthe newest entry of key shop-00011 is stamped 1h ahead"; !bytes.Contains(out.Bytes(), []byte(want)) {
		t.Errorf("it shows\n%s\nwant %q", out.String(), want)
	}
	if !regexp.MustCompile(`(?s)KEY +BUDGET.*\nshop-00003 few +9 +10 +1 units .*account p has more than 10000 keys`).Match(out.Bytes()) {
		t.Errorf("it shows\n%s", out.String())
	}
}
