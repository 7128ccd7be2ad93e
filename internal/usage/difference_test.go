package usage_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

func inMemory(now func() time.Time) quota.Ledger {
	return memledger.Open(&memledger.Options{Now: now})
}

// spendAs spends one unit in the name of each of several jobs.
func (w *world) spendAs(jobs int) {
	w.t.Helper()
	var calls []quota.Call
	for i := range jobs {
		calls = append(calls,
			quota.Call{Account: "p", Method: "m", Units: 1, Caller: quota.Caller{Job: fmt.Sprint("job", i)}})
	}
	testledger.Fill(w.t, w.ledger, calls...)
}

// TestAFillWritesTheDifference: each Fill wrote all that the log holds, which
// took longer than it may with 65,000 different labels.
func TestAFillWritesTheDifference(t *testing.T) {
	w := newWorld(t, t.TempDir(), inMemory, budget("b", quota.Sliding(24*time.Hour)))
	defer w.close()
	w.spendAs(1000)
	refunded := w.spend("m", "IN", 7)
	w.fill(0)
	db, err := sql.Open("sqlite", w.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE writes (what TEXT);
		CREATE TRIGGER i AFTER INSERT ON day_sums BEGIN INSERT INTO writes VALUES ('insert ' || new.region); END;
		CREATE TRIGGER u AFTER UPDATE ON day_sums BEGIN INSERT INTO writes VALUES ('update ' || new.region); END;
		CREATE TRIGGER d AFTER DELETE ON day_sums BEGIN INSERT INTO writes VALUES ('delete ' || old.region); END`); err != nil {
		t.Fatal(err)
	}
	wrote := func(want string) {
		t.Helper()
		w.fill(1)
		var got string
		if err := db.QueryRow("SELECT coalesce(group_concat(what, ', ' ORDER BY what), '') FROM writes").Scan(
			&got); err != nil || got != want {
			t.Errorf("a fill did %.300s, %v; want %s", got, err, want)
		}
		if _, err := db.Exec("DELETE FROM writes"); err != nil {
			t.Fatal(err)
		}
	}
	wrote("")
	w.spend("m", "BR", 1)
	wrote("insert BR, insert BR")
	w.spend("m", "BR", 1)
	wrote("update BR, update BR")
	if err := refunded.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrote("delete IN, delete IN")
	w.want("region", map[string]string{" 2026-11-20 -": "1000/1000", " 2026-11-20 BR": "2/2",
		"b 2026-11-20 -": "1000/1000", "b 2026-11-20 BR": "2/2"})
}

// TestALongFillKeepsWhatItWrote: one that took longer than it may was undone,
// so that the next one began anew, and there never was a history.
func TestALongFillKeepsWhatItWrote(t *testing.T) {
	left := 100 // reads that the ledger answers
	w := newWorld(t, t.TempDir(), func(now func() time.Time) quota.Ledger {
		return testledger.Before(inMemory(now), func(op string) error {
			if left--; left < 0 {
				return errors.New("unreadable")
			}
			return nil
		})
	}, budget("b", quota.Sliding(24*time.Hour)))
	defer w.close()
	w.spendAs(11_000)
	left = 5 // and not those for the peaks
	if err := usage.FillHistory(t.Context(), w.stores[0], w.guard, []string{"p"}); err == nil {
		t.Fatal("the entries were read")
	}
	w.want("", map[string]string{" 2026-11-20 ": "11000/11000"})
	rows, err := w.stores[0].History(t.Context(), &catalog.DayQuery{By: "job"})
	if err != nil || len(rows) != 11_000 {
		t.Errorf("%d jobs, %v; want 11,000", len(rows), err)
	}
}
