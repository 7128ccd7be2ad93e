//go:build linux || darwin

package sqliteledger_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// spending returns a function that spends units of budgets and
// ignores refusals.
func spending(b *testing.B, l quota.Ledger, units quota.Units, charges ...*quota.Charge) func() {
	return spendingIn(b.Context(), b, l, units, charges...)
}

func spendingIn(ctx context.Context, b *testing.B, l quota.Ledger, units quota.Units, charges ...*quota.Charge) func() {
	batch := one(units, charges...)
	return func() {
		if _, err := l.Spend(ctx, batch); err != nil {
			b.Error(err)
		}
	}
}

// appending is the lower bound for a record on disk that processes take turns
// to write: flock, append 64 bytes, unlock.
func appending(b *testing.B, synced bool) func() {
	file, err := os.OpenFile(filepath.Join(b.TempDir(), "baseline"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	fd, record := int(file.Fd()), make([]byte, 64)
	return func() {
		err := syscall.Flock(fd, syscall.LOCK_EX)
		if err == nil {
			_, err = syscall.Write(fd, record)
		}
		if err == nil && synced {
			err = file.Sync()
		}
		if err == nil {
			err = syscall.Flock(fd, syscall.LOCK_UN)
		}
		if err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkSpend decides calls on one budget, by one goroutine or by 64, which
// share transactions, and compares them with flock and append. A granted call
// is recorded, a refused one is not.
func BenchmarkSpend(b *testing.B) {
	const full, empty = 1, quota.MaxLimit
	for _, bench := range []struct {
		name       string
		sync       sqliteledger.Sync
		limit      quota.Units
		goroutines int
	}{
		{"full/one", sqliteledger.Full, empty, 0},
		{"full/64", sqliteledger.Full, empty, 64},
		{"normal/one", sqliteledger.Normal, empty, 0},
		{"normal/64", sqliteledger.Normal, empty, 64},
		{"refused/one", sqliteledger.Normal, full, 0},
		{"refused/64", sqliteledger.Normal, full, 64},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := open(b, fresh(b), &sqliteledger.Options{Sync: bench.sync})
			day := charge("day", bench.limit, quota.Sliding(24*time.Hour))
			spend := spending(b, l, 1, day)
			spend()
			before := commits(b, l)
			ledgertest.Compare(b, ledgertest.Loop{Do: appending(b, bench.sync == sqliteledger.Full)},
				ledgertest.Loop{Goroutines: bench.goroutines, Do: spend})
			b.ReportMetric(float64(commits(b, l)-before)/float64(b.N), "commits/op")
		})
	}
}

// long returns a ledger with n entries, a second apart, and its clock. The
// first entry is about to leave a window of n seconds.
func long(b *testing.B, n int) (*sqliteledger.Ledger, *ledgertest.Clock, quota.Window) {
	clock := &ledgertest.Clock{}
	clock.Set(noon)
	l := open(b, fresh(b), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
	window := quota.Sliding(time.Duration(n) * time.Second)
	batch := one(1, charge("all", quota.MaxLimit, window))
	if err := l.Fill(batch, n, clock.Now().UnixMicro()); err != nil {
		b.Fatal(err)
	}
	clock.Add(window.Length())
	return l, clock, window
}

// BenchmarkLength measures decisions on logs of a million and of a
// thousand entries.
func BenchmarkLength(b *testing.B) {
	const less, more = 1000, 1_000_000
	for _, bench := range []struct {
		name    string
		refused bool
		units   quota.Units
	}{{"granted/cost=1", false, 1}, {"granted/cost=100", false, 100}, {"refused/cost=1", true, 1}, {"refused/cost=100", true, 100}} {
		var loops [2]ledgertest.Loop
		for i, n := range []int{less, more} {
			l, clock, window := long(b, n)
			limit := quota.MaxLimit
			if bench.refused {
				limit = quota.Units(n - 1)
			}
			spend := spending(b, l, bench.units, charge("all", limit, window))
			loops[i].Do = func() {
				if !bench.refused {
					clock.Add(time.Second)
				}
				spend()
			}
		}
		b.Run(bench.name, func(b *testing.B) { ledgertest.Compare(b, loops[0], loops[1]) })
	}
}

// BenchmarkBudgets measures calls that one budget covers and calls that
// three do.
func BenchmarkBudgets(b *testing.B) {
	all := charge("all", quota.MaxLimit, quota.Sliding(24*time.Hour))
	calls := charge("calls", quota.MaxLimit, hour)
	calls.Coverage = quota.NewCoverage(quota.Coverage{Measure: quota.Calls})
	for _, bench := range []struct {
		name    string
		charges []*quota.Charge
	}{
		{"coverages=3", []*quota.Charge{all, calls, charge("list", quota.MaxLimit, hour, "videos.list")}},
		{"windows=3", []*quota.Charge{all, charge("hour", quota.MaxLimit, hour), charge("minute", quota.MaxLimit, quota.Sliding(time.Minute))}},
	} {
		for _, goroutines := range []int{0, 64} {
			b.Run(fmt.Sprint(bench.name, "/goroutines=", max(1, goroutines)), func(b *testing.B) {
				o := &sqliteledger.Options{Sync: sqliteledger.Normal}
				ledgertest.Compare(b,
					ledgertest.Loop{Goroutines: goroutines, Do: spending(b, open(b, fresh(b), o), 1, all)},
					ledgertest.Loop{Goroutines: goroutines, Do: spending(b, open(b, fresh(b), o), 1, bench.charges...)})
			})
		}
	}
}

// BenchmarkCounter measures calls on a counter window, which keeps no entries,
// and on an exact window.
func BenchmarkCounter(b *testing.B) {
	exact, counter := charge("exact", quota.MaxLimit, hour), charge("counter", quota.MaxLimit, quota.Counter(time.Hour))
	for _, goroutines := range []int{0, 64} {
		b.Run(fmt.Sprint("goroutines=", max(1, goroutines)), func(b *testing.B) {
			o := &sqliteledger.Options{Sync: sqliteledger.Normal}
			ledgertest.Compare(b,
				ledgertest.Loop{Goroutines: goroutines, Do: spending(b, open(b, fresh(b), o), 1, exact)},
				ledgertest.Loop{Goroutines: goroutines, Do: spending(b, open(b, fresh(b), o), 1, counter)})
		})
	}
}

// BenchmarkCold opens a ledger, spends once and closes it. For comparison it
// inserts one row with database/sql.
func BenchmarkCold(b *testing.B) {
	bare, ledger := fresh(b), fresh(b)
	insert := func() {
		db, err := sql.Open("sqlite", "file:"+bare+"?_pragma=synchronous(FULL)")
		if err == nil {
			_, err = db.Exec("INSERT INTO spends (units) VALUES (?)", 1)
		}
		if err == nil {
			err = db.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", "file:"+bare)
	if err == nil {
		_, err = db.Exec("PRAGMA journal_mode = WAL; CREATE TABLE spends (spend INTEGER PRIMARY KEY, units INTEGER)")
	}
	if err != nil {
		b.Fatal(err)
	}
	db.Close()
	for name, ctx := range map[string]context.Context{"plain": context.Background(), "cancellable": b.Context()} {
		spend := func() {
			l, err := sqliteledger.Open(ledger, nil)
			if err != nil {
				b.Fatal(err)
			}
			spendingIn(ctx, b, l, 1, charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour)))()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) { ledgertest.Compare(b, ledgertest.Loop{Do: insert}, ledgertest.Loop{Do: spend}) })
	}
}

func commits(b *testing.B, l *sqliteledger.Ledger) int64 {
	n, err := l.Commits()
	if err != nil {
		b.Fatal(err)
	}
	return n
}
