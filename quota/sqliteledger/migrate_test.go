//go:build linux || darwin

package sqliteledger_test

import (
	"compress/gzip"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// firstRelease returns the path of a copy of a ledger that the first release
// wrote on 2026-11-20 from 12:00 to 12:07:23: a search that was refunded,
// one settled from 100 to 40 units, one whose 30 units more were added late,
// a note, 260 calls of videos.list, the batch 7 of the client 42 with a
// refusal in the middle, three calls of the key 203.0.113.9, and a cooldown
// of two hours.
func firstRelease(t testing.TB) string {
	t.Helper()
	packed, err := os.Open("testdata/first-release.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	path := fresh(t)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, unpacked); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var firstReleased = time.Date(2026, 11, 20, 12, 7, 23, 0, time.UTC) // when it was closed

// ofFirstRelease opens such a ledger, with the clock at the time it was closed.
func ofFirstRelease(t testing.TB) (*sqliteledger.Ledger, *ledgertest.Clock) {
	clock := &ledgertest.Clock{}
	clock.Set(firstReleased)
	return open(t, firstRelease(t), &sqliteledger.Options{Now: clock.Now}), clock
}

// charges are those of the first release.
func charges(t testing.TB) (day, calendar, searches, each *quota.Charge) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	searches = charge("searches", 100, hour)
	searches.Coverage = quota.NewCoverage(quota.Coverage{Methods: []string{"search.list"}, Measure: quota.Calls})
	return charge("day", 10_000, quota.Sliding(24*time.Hour)), charge("calendar", 10_000, quota.Daily(pacific)), searches,
		charge("each", 1000, quota.Counter(10*time.Minute), "videos.list")
}

// TestFileOfTheFirstRelease: a migrated file has the standings that the first
// release showed.
func TestFileOfTheFirstRelease(t *testing.T) {
	l, clock := ofFirstRelease(t)
	day, calendar, searches, each := charges(t)
	at := func(value string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	want := []quota.Standing{
		{At: firstReleased, Since: at("2026-11-19T12:07:23.000001Z"), Used: 441, NextFree: at("2026-11-21T12:00:00Z")},
		{At: firstReleased, Since: at("2026-11-20T07:59:30Z"), Used: 441, NextFree: at("2026-11-21T08:00:30Z")},
		{At: firstReleased, Since: at("2026-11-20T11:07:23.000001Z"), Used: 2, NextFree: at("2026-11-20T13:00:00Z"),
			Cooldown: &quota.Cooldown{Account: "my-project", Budget: "searches", Until: at("2026-11-20T14:07:23Z"), Reason: "the upstream said so"}},
		{At: firstReleased, Used: 260, NextFree: at("2026-11-20T12:10:02.307693Z")},
	}
	for range 2 { // before and after counters and lists are in use
		got, err := l.Standings(t.Context(), "my-project", "", []*quota.Charge{day, calendar, searches, each})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		refused := one(10_000, day, calendar, each, searches)
		refused.Requests = append(refused.Requests, one(9_670, day).Requests[0])
		answers, err := l.Spend(t.Context(), refused)
		if err != nil {
			t.Fatal(err)
		}
		short, _ := errors.AsType[*quota.RefusedError](answers[1].Err)
		if short == nil || short.Remaining != 9_559 || !short.RetryAt.Equal(at("2026-11-21T12:02:00Z")) {
			t.Fatalf("%v, %+v; want the refusal of the first release", answers[0].Err, short)
		}
	}
	clock.Add(time.Second)
	spend(t, l, 1, day, calendar, each)
	got, err := l.Standings(t.Context(), "my-project", "", []*quota.Charge{day, calendar, each})
	if err != nil || got[0].Used != 442 || got[1].Used != 442 || got[2].Used != 261 {
		t.Errorf("%+v, %v; want one unit more", got, err)
	}
	minute := charge("minute", 10, quota.Sliding(time.Minute))
	if s, err := l.Standings(t.Context(), "my-project", "203.0.113.9", []*quota.Charge{minute}); err != nil || s[0].Used != 6 {
		t.Errorf("%+v, %v; want the key's 6 units", s, err)
	}
}

// TestEntryKindsOfTheFirstRelease: the kind is derived from what the
// entry counts.
func TestEntryKindsOfTheFirstRelease(t *testing.T) {
	l, _ := ofFirstRelease(t)
	type seen struct {
		Kind         quota.EntryKind
		Method, Job  string
		Units, Calls quota.Units
	}
	got := map[seen]int{}
	for _, e := range collect(t, l) {
		got[seen{e.Kind, e.Method, e.Caller.Job, e.Units, e.Calls}]++
	}
	want := map[seen]int{
		{quota.EntryCall, "search.list", "charts", 100, 1}:    1,
		{quota.EntryRefunded, "search.list", "charts", 0, 0}:  1,
		{quota.EntryCall, "search.list", "charts", 40, 1}:     1,
		{quota.EntryRefunded, "note", "reconcile", 0, 0}:      1, // no further detail was stored
		{quota.EntryCall, "videos.list", "charts", 1, 1}:      260,
		{quota.EntryAddition, "search.list", "charts", 30, 0}: 1,
		{quota.EntryCall, "channels.list", "", 5, 1}:          1,
		{quota.EntryCall, "channels.list", "", 6, 1}:          1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRepeatedBatchOfTheFirstRelease: the last batches of clients are migrated,
// and so are entries that are settled later.
func TestRepeatedBatchOfTheFirstRelease(t *testing.T) {
	l, _ := ofFirstRelease(t)
	day, _, _, _ := charges(t)
	batch := &quota.Batch{Account: "my-project", Client: 42, Seq: 7}
	for _, units := range []quota.Units{5, 9_999, 6} {
		batch.Requests = append(batch.Requests, quota.Request{Method: "channels.list", Units: units, Charges: []*quota.Charge{day}})
	}
	answers, err := l.Spend(t.Context(), batch)
	if err != nil || answers[0].Err != nil || !errors.Is(answers[1].Err, quota.ErrRefused) || answers[2].Err != nil {
		t.Fatalf("%+v, %v; want a grant, a refusal, a grant", answers, err)
	}
	then := time.Date(2026, 11, 20, 12, 7, 20, 0, time.UTC)
	for i, after := range map[int]time.Duration{0: time.Microsecond, 2: 2 * time.Microsecond} {
		if at := answers[i].Receipt.At; !at.Equal(then.Add(after)) {
			t.Errorf("request %d was stamped %s; want %s after %s", i, at, after, then)
		}
	}
	if n := used(t, l, day); n != 441 {
		t.Errorf("%d used; want 441 as before", n)
	}
	if err := l.Settle(t.Context(), answers[0].Receipt, 15); err != nil {
		t.Fatal(err)
	}
	if n := used(t, l, day); n != 451 {
		t.Errorf("%d used; want 10 more", n)
	}
}

// TestMigratedTables: a migrated file and a new one have the same columns
// and indices.
func TestMigratedTables(t *testing.T) {
	const columns = `SELECT m.type || ' ' || m.name || ' ' || IFNULL((SELECT group_concat(name || ' ' || type || ' ' || "notnull" || ' ' || pk)
		FROM pragma_table_info(m.name)), '') FROM sqlite_schema m WHERE name <> 'logs' ORDER BY m.type, m.name`
	var all [3][]string
	for i, path := range []string{fresh(t), firstRelease(t), ofVersion2(t)} {
		l := open(t, path, nil)
		if version, err := l.Number("PRAGMA user_version"); version != 6 || err != nil {
			t.Fatal(version, err)
		}
		l.Close()
		db := raw(t, path)
		rows, err := db.Query(columns)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			all[i] = append(all[i], line)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, migrated := range all[1:] {
		if diff := cmp.Diff(all[0], migrated); diff != "" {
			t.Error(diff)
		}
	}
}

// ofVersion2 returns the path of a new ledger as version 2 made it: there were
// no sums, and cooldowns did not say for how long they were set.
func ofVersion2(t testing.TB) string {
	path := fresh(t)
	open(t, path, nil).Close()
	db := raw(t, path)
	if _, err := db.Exec("ALTER TABLE account_logs DROP COLUMN epoch; ALTER TABLE account_logs DROP COLUMN heard; DROP TABLE sums; DROP TABLE limits; ALTER TABLE cooldowns DROP COLUMN length; PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVersionThreeIsUpgraded: entries from before sums were stored are added
// up too.
func TestVersionThreeIsUpgraded(t *testing.T) {
	path := fresh(t)
	l := open(t, path, nil)
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	spend(t, l, 3, day)
	l.Close()
	if _, err := raw(t, path).Exec("ALTER TABLE account_logs DROP COLUMN epoch; ALTER TABLE account_logs DROP COLUMN heard; DROP TABLE sums; DROP TABLE limits; PRAGMA user_version = 3"); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, nil)
	spend(t, l, 4, day)
	for sum, err := range l.Sums(t.Context(), quota.Query{Account: "my-project"}) {
		if err != nil || sum.Entries != 2 || sum.Units != 7 {
			t.Errorf("%+v, %v; want both entries", sum, err)
		}
	}
	if version, err := l.Number("PRAGMA user_version"); version != 6 || err != nil {
		t.Errorf("version %d, %v; want 6", version, err)
	}
}

func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// TestFirstReleaseInAMigratedFile: a process of the first release that
// has the file open begins every operation on a log with one statement, which
// fails with a name that says why; one that opens the file reads its version.
func TestFirstReleaseInAMigratedFile(t *testing.T) {
	const first = `SELECT g.log, g.horizon, e.stamp, e.total FROM logs g LEFT JOIN entries e
		ON e.log = g.log AND e.stamp = (SELECT stamp FROM entries WHERE log = g.log ORDER BY stamp DESC LIMIT 1)
		WHERE g.account = ?1 AND g.key = ?2`
	path := firstRelease(t)
	old, err := raw(t, path).Prepare(first)
	if err != nil {
		t.Fatal(err)
	}
	var log, horizon, stamp, total int64
	read := func() error { return old.QueryRow("my-project", "").Scan(&log, &horizon, &stamp, &total) }
	if err := read(); err != nil || total != 441 {
		t.Fatalf("total %d, %v; want 441", total, err)
	}
	open(t, path, nil)
	if err := read(); err == nil || !strings.Contains(err.Error(), "a newer version of this program has upgraded the file: restart this one") {
		t.Errorf("%v; want the reason", err)
	}
	var version int
	if err := raw(t, path).QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 6 {
		t.Errorf("version %d, %v; want 6", version, err)
	}
}

// TestKilledWhileMigrating leaves the file of the first release, which the next
// process migrates.
func TestKilledWhileMigrating(t *testing.T) {
	path := firstRelease(t)
	for range 2 {
		cmd, out := start(t, "die", path)
		for out.Scan() {
			t.Error(out.Text())
		}
		var status syscall.WaitStatus
		if cmd.Wait(); cmd.ProcessState != nil {
			status = cmd.ProcessState.Sys().(syscall.WaitStatus)
		}
		if status.Signal() != syscall.SIGKILL {
			t.Fatalf("%v; want it killed", cmd.ProcessState)
		}
		var version, logs int
		err := raw(t, path).QueryRow("SELECT (SELECT user_version FROM pragma_user_version), (SELECT COUNT(*) FROM logs)").Scan(&version, &logs)
		if err != nil || version != 1 || logs != 2 {
			t.Fatalf("version %d, %d logs, %v; want the old file as it was", version, logs, err)
		}
	}
	clock := &ledgertest.Clock{}
	clock.Set(firstReleased)
	l := open(t, path, &sqliteledger.Options{Now: clock.Now})
	day, _, _, _ := charges(t)
	if n := used(t, l, day); n != 441 {
		t.Errorf("%d used; want 441", n)
	}
}

// TestMigratedByManyAtOnce: one process migrates, and none sees a partial file.
func TestMigratedByManyAtOnce(t *testing.T) {
	day, _, searches, each := charges(t)
	clock := &ledgertest.Clock{}
	clock.Set(firstReleased)
	for range 10 {
		path := firstRelease(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				l, err := sqliteledger.Open(path, &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
				if err != nil {
					t.Error(err)
					return
				}
				defer l.Close()
				for range 3 {
					answers, err := l.Spend(context.Background(), one(1, day, searches, each))
					if err != nil || answers[0].Err != nil && !errors.Is(answers[0].Err, quota.ErrRefused) {
						t.Error(answers, err)
					}
				}
			})
		}
		wg.Wait()
		l := open(t, path, &sqliteledger.Options{Now: clock.Now})
		if n, m := used(t, l, day), used(t, l, each); n != 441 || m != 260 { // the cooldown refused them
			t.Fatalf("%d and %d used; want 441 and 260", n, m)
		}
		spend(t, l, 2, day, each)
		if n, m := used(t, l, day), used(t, l, each); n != 443 || m != 262 {
			t.Fatalf("%d and %d used; want 443 and 262", n, m)
		}
	}
}

// TestMigratedByEightProcesses: they all spend on a file of the first release
// until its budget is full.
func TestMigratedByEightProcesses(t *testing.T) {
	path := firstRelease(t)
	granted := 0
	for _, out := range spenders(t, path, 8) {
		granted += out
	}
	if n := used(t, open(t, path, nil), shared); granted != 20_000 || n != 20_000 {
		t.Errorf("granted %d, recorded %d; want 20000", granted, n)
	}
}
