package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestKeyOfAnOutage: a key is granted 50 units within the allowance, ten
// minutes before the ledger is back. They are charged, also to a log that the
// ledger does not have yet.
func TestKeyOfAnOutage(t *testing.T) {
	for kind, open := range map[string]func(now func() time.Time) (quota.Ledger, error){
		"memory": func(now func() time.Time) (quota.Ledger, error) {
			return memledger.Open(&memledger.Options{Now: now}), nil
		},
		"Redis": func(now func() time.Time) (quota.Ledger, error) {
			return redisledger.Open(redistest.Start(t).URL(), &redisledger.Options{Now: now})
		},
		"SQLite": func(now func() time.Time) (quota.Ledger, error) {
			return sqliteledger.Open(filepath.Join(t.TempDir(), "l.db"), &sqliteledger.Options{Now: now})
		},
	} {
		for _, seen := range []string{"", "another key", "key"} { // before the outage
			t.Run(kind+"/"+seen, func(t *testing.T) {
				clock := &ledgertest.Clock{}
				clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
				l, err := open(clock.Now)
				must(t, err)
				inner, dir, seq := &faulty{Ledger: l}, filepath.Join(t.TempDir(), "journal"), uint64(0)
				inner.fail(nil)
				var j *journal.Ledger
				ask := func(key string, units quota.Units) []quota.Held {
					t.Helper()
					clock.Add(time.Second)
					seq++
					answers, err := j.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Client: 42, Seq: seq, Requests: []quota.Request{{Method: "m", Units: units, Charges: []*quota.Charge{fixtureCharge}}}})
					if err != nil || answers[0].Err != nil {
						t.Fatal(answers, err)
					}
					return answers[0].Held
				}
				j = journal.New(inner, dir, fixtureOptions(clock))
				ask(seen, 1)
				before := quota.Units(0)
				if seen == "key" {
					before = 1
				}
				inner.fail(errDown)
				ask("key", 50)
				clock.Add(10 * time.Minute)
				inner.fail(nil)
				j = journal.New(inner, dir, fixtureOptions(clock)) // another process
				defer j.Close()
				if got := ask("key", 1)[0].Used; got != before+51 {
					t.Errorf("%d units of the key are in use; want %d", got, before+51)
				}
			})
		}
	}
}
