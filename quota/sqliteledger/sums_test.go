//go:build linux || darwin

package sqliteledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// regional makes a long log like that of a job that fetches for 24 regions: n
// entries, a second apart, with 96 labels and a client for every 40 entries.
func regional(t testing.TB, n int) (*sqliteledger.Ledger, quota.Query) {
	t.Helper()
	clock := &ledgertest.Clock{}
	clock.Set(noon)
	l := open(t, fresh(t), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
	batch := one(3, charge("all", quota.MaxLimit, quota.Sliding(time.Duration(n)*time.Second)))
	request := batch.Requests[0]
	for i := range 23 * 4 {
		request.Method, request.Caller = fmt.Sprint("method", i%4), quota.Caller{Lane: "cron", Job: "trending", Region: fmt.Sprint("R", i/4)}
		batch.Requests = append(batch.Requests, request)
	}
	if err := l.Fill(batch, n, clock.Now().UnixMicro()); err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Duration(n) * time.Second)
	return l, quota.Query{Account: batch.Account}
}

// TestALookReadsLittle: the last entries of a long log, and the sums of all,
// are read without the rest of the log.
func TestALookReadsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls, 1 second")
	}
	const n = 100_000
	l, query := regional(t, n)
	pages, err := l.CountReads("sums-page") // each of at most 2048 entries
	if err != nil {
		t.Fatal(err)
	}
	entries := int64(0)
	for sum, err := range l.Sums(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
		entries += sum.Entries
	}
	if entries != n || pages.Runs == 0 || pages.Runs > 8 {
		t.Errorf("%d pages read for the sums of %d entries; want a few, for the sums of %d", pages.Runs, entries, n)
	}
	listed, err := l.CountReads("page-newest")
	if err != nil {
		t.Fatal(err)
	}
	query.Newest = true
	left := 10
	for _, err := range l.Entries(t.Context(), query) {
		if err != nil {
			t.Fatal(err)
		}
		if left--; left == 0 {
			break
		}
	}
	if listed.Rows > 20 {
		t.Errorf("%d rows read for the last ten entries", listed.Rows)
	}
}

// TestSumsGoWithTheirLog: a new log may get the number of a deleted one.
func TestSumsGoWithTheirLog(t *testing.T) {
	l, clock := timed(t)
	batch := one(1, charge("each", quota.MaxLimit, hour))
	batch.Key = "left"
	if err := l.Fill(batch, 20_000, clock.Now().UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if rows := count(t, l, "sums"); rows == 0 {
		t.Fatal("no sums of a log of 20000 entries")
	}
	for i := range 8 { // some new logs look for an idle one
		clock.Add(24 * time.Hour)
		batch.Key = fmt.Sprint("another ", i)
		if _, err := l.Spend(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if rows := count(t, l, "sums"); rows > 0 {
		t.Errorf("%d sums of a log that is gone", rows)
	}
}

// BenchmarkLookAtAMillion runs the queries of status and log on a
// million entries.
func BenchmarkLookAtAMillion(b *testing.B) {
	l, query := regional(b, 1_000_000)
	b.Run("sums", func(b *testing.B) {
		for b.Loop() {
			for _, err := range l.Sums(b.Context(), query) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	last := query
	last.Newest = true
	b.Run("last10", func(b *testing.B) {
		for b.Loop() {
			left := 10
			for _, err := range l.Entries(b.Context(), last) {
				if left--; left == 0 || err != nil {
					break
				}
			}
		}
	})
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			for _, err := range l.Entries(b.Context(), query) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
