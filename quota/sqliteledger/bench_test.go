package sqliteledger_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// BenchmarkAppend compares an append with a commit of one row in a file of the
// same settings. They alternate, since the speed of a disk changes; "rate" is
// that of appends, where that of commits is 1, by their medians.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []sqliteledger.Sync{sqliteledger.Full, sqliteledger.Normal} {
		b.Run("sync="+sync.String(), func(b *testing.B) {
			appendOne, commitOne := appender(b, sync), committer(b, sync)
			var appends, commits []time.Duration
			for b.Loop() {
				began := time.Now()
				appendOne()
				middle := time.Now()
				commitOne()
				appends, commits = append(appends, middle.Sub(began)), append(commits, time.Since(middle))
			}
			slices.Sort(appends)
			slices.Sort(commits)
			appended, committed := appends[len(appends)/2], commits[len(commits)/2]
			b.ReportMetric(float64(appended.Microseconds()), "us/append")
			b.ReportMetric(float64(committed.Microseconds()), "us/commit")
			b.ReportMetric(float64(committed)/float64(appended), "rate")
		})
	}
}

func appender(b *testing.B, sync sqliteledger.Sync) func() {
	l := open(b, fresh(b), &sqliteledger.Options{Sync: sync})
	a := batch(engine.Known{}, 1)
	a.Any, a.Adds = false, []engine.Total{{Index: 0, Amount: 1}, {Index: 1, Amount: 1}}
	a.Conditions = []engine.Condition{{Totals: []uint8{0}, Steps: []engine.Step{{Most: 1 << 40}}}}
	n := uint64(0)
	return func() {
		n++
		a.Data = append(binary.BigEndian.AppendUint64(nil, n), make([]byte, 32)...)
		tail, err := l.Append(b.Context(), "project", a)
		if err != nil || !tail.Appended || len(tail.Batches) > 0 {
			b.Fatalf("%+v, %v", tail, err)
		}
		a.Known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: engine.Tag(a.Data)}
		a.Trim = max(tail.Position, 1000) - 1000
	}
}

func committer(b *testing.B, sync sqliteledger.Sync) func() {
	db := openSQL(b, fresh(b))
	for _, text := range []string{"PRAGMA journal_mode = WAL", "PRAGMA synchronous = " + sync.String(),
		"CREATE TABLE rows (id INTEGER PRIMARY KEY, data BLOB)"} {
		if _, err := db.Exec(text); err != nil {
			b.Fatal(err)
		}
	}
	insert, err := db.Prepare("INSERT INTO rows (data) VALUES (?)")
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 40)
	return func() {
		if _, err := insert.Exec(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	ledgertest.Start(b, func(b *testing.B, account string, batches []engine.Batch) engine.Ledger {
		path := fresh(b)
		l := open(b, path, nil)
		if _, err := l.Append(b.Context(), account, &engine.Append{NewEpoch: 7, Data: batches[0].Data}); err != nil {
			b.Fatal(err)
		}
		tx, err := openSQL(b, path).Begin()
		exec := func(query string, args ...any) {
			if err == nil {
				_, err = tx.Exec(query, args...)
			}
		}
		for _, batch := range batches[1:] {
			exec("INSERT INTO batches VALUES (1, ?, ?, ?)", batch.Position, batch.At, batch.Data)
		}
		exec("UPDATE heads SET position = ?", len(batches))
		if err = errors.Join(err, tx.Commit()); err != nil {
			b.Fatal(err)
		}
		return l
	})
}
