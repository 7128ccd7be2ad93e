package postgresledger_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/postgresledger"
)

// BenchmarkAppend compares an append with a commit of one row, by a connection
// to the same server. They alternate, since the speed of a disk changes; "rate"
// is that of appends, where that of commits is 1, by their medians.
func BenchmarkAppend(b *testing.B) {
	server := servers.StartPostgres(b)
	bouncer := servers.StartPgBouncer(b, server)
	for name, server := range map[string]*servers.Postgres{"direct": server, "pgbouncer": bouncer} {
		b.Run(name, func(b *testing.B) {
			appendOne, commitOne := appender(b, server), committer(b, server)
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

func appender(b *testing.B, server *servers.Postgres) func() {
	l := open(b, server.URL()+"&schema=bench_"+time.Now().Format("150405000000"), nil)
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

func committer(b *testing.B, server *servers.Postgres) func() {
	conn := connect(b, server)
	if _, err := conn.Exec(b.Context(), "CREATE TABLE IF NOT EXISTS rows (id bigserial PRIMARY KEY, data bytea)",
		pgx.QueryExecModeExec); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 40)
	return func() {
		if _, err := conn.Exec(b.Context(), "INSERT INTO rows (data) VALUES ($1)", pgx.QueryExecModeExec,
			data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	server := servers.StartPostgres(b)
	ledgertest.Start(b, func(b *testing.B, account string, batches []engine.Batch) engine.Ledger {
		schema := fmt.Sprintf("start_%d", len(batches))
		l := open(b, server.URL(), &postgresledger.Options{Schema: schema})
		if _, err := l.Append(b.Context(), account, &engine.Append{NewEpoch: 7, Data: batches[0].Data}); err != nil {
			b.Fatal(err)
		}
		conn, last := connect(b, server), batches[len(batches)-1]
		rows := pgx.CopyFromSlice(len(batches)-1, func(i int) ([]any, error) {
			return []any{int64(1), int64(i + 2), batches[i+1].At, batches[i+1].Data}, nil
		})
		columns := []string{"log", "position", "at", "data"}
		_, err := conn.CopyFrom(b.Context(), pgx.Identifier{schema, "batches"}, columns, rows)
		if err == nil {
			_, err = conn.Exec(b.Context(), "ANALYZE "+schema+".batches") // as autovacuum does within a minute
		}
		if err == nil {
			update := "UPDATE " + schema + ".heads SET position = $1, tag = $2"
			_, err = conn.Exec(b.Context(), update, len(batches), last.Data[:engine.TagSize])
		}
		if err != nil {
			b.Fatal(err)
		}
		return l
	})
}
