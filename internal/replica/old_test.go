package replica

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// fixture is a ledger that an earlier release has written; open opens it as
// another process would.
type fixture struct {
	open   func() *Old
	closed func(account string) map[string]string // the cooldowns that say that it has moved: reasons by budget
}

// oldSQLiteFixture unpacks a file.
func oldSQLiteFixture(t *testing.T, name string) *fixture {
	t.Helper()
	path := filepath.Join(t.TempDir(), "old.db")
	if err := os.WriteFile(path, testledger.OldFile(t, name), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *Old {
		t.Helper()
		old, err := OpenOldSQLite(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { old.Close() })
		return old
	}
	return &fixture{open: open, closed: closedOf(t, open)}
}

// oldRedisFixture runs a file of commands on a server.
func oldRedisFixture(t *testing.T, name string) (*fixture, *servers.Redis) {
	t.Helper()
	server := servers.StartRedis(t)
	options, err := redis.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	for _, args := range testledger.OldCommands(t, name) {
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	open := func() *Old { return NewOldRedis(client, "") }
	return &fixture{open: open, closed: closedOf(t, open)}, server
}

func closedOf(t *testing.T, open func() *Old) func(string) map[string]string {
	return func(account string) map[string]string {
		t.Helper()
		cooldowns, err := open().format.cooldowns(t.Context(), account)
		if err != nil {
			t.Fatal(err)
		}
		reasons := map[string]string{}
		for _, c := range cooldowns {
			reasons[c.budget] = c.reason
		}
		return reasons
	}
}

// entryLine is an entry as testdata/*.entries has it. That is what the release
// itself has listed.
func entryLine(account string, e *engine.Entry) string {
	kind := "call"
	switch isZero := e.Amounts.Units == 0 && e.Amounts.Calls == 0; {
	case e.Note && e.Name != "":
		kind = e.Name
	case e.Note && e.Amounts.Units > 0:
		kind = "addition"
	case e.Note:
		kind = "note"
	case e.Settled && isZero:
		kind = "refunded"
	}
	l := e.Labels
	return fmt.Sprintf("%q %q %d %s %q %q %q %q %d %d", account, l.Key, e.At, kind, l.Method, l.Lane, l.Job, l.Region,
		e.Amounts.Units, e.Amounts.Calls)
}

// lines returns the entries of all accounts, sorted.
func lines(t *testing.T, l engine.Ledger) (all []string) {
	t.Helper()
	for account, err := range l.Accounts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		err := engine.New(l, nil).Account(account).View(t.Context(), func(v *engine.View) {
			v.Entries(0, engine.Never, false, func(e engine.Entry) bool {
				all = append(all, entryLine(account, &e))
				return true
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

// move moves all accounts of a ledger of an earlier release.
func move(t *testing.T, old *Old, to engine.Ledger, toName string) []*Report {
	t.Helper()
	c := &Copy{From: old, To: to, FromName: "old", ToName: toName}
	names, err := c.Accounts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var reports []*Report
	all, err := c.MoveAll(t.Context(), names, func(r *Report) { reports = append(reports, r) })
	if err == nil {
		err = FollowAll(t.Context(), all, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

// TestTheSecondReleaseIsImported: the new ledger lists what the release has
// listed, from a file and from Redis.
func TestTheSecondReleaseIsImported(t *testing.T) {
	inRedis, _ := oldRedisFixture(t, "second-release")
	for name, f := range map[string]*fixture{"SQLite": oldSQLiteFixture(t, "second-release"), "Redis": inRedis} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/second-release.entries")
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(strings.TrimSpace(string(text)), "\n")
			slices.Sort(want)
			to := memory("new").connect()
			reports := move(t, f.open(), to, "new")
			if diff := cmp.Diff(want, lines(t, to)); diff != "" {
				t.Error(diff)
			}
			r := reports[0]
			got := fmt.Sprintln(len(reports), r.Account, r.State, r.Entries, r.Units, r.Calls, r.Keys)
			if got != "2 my project~1 ready 309 501 308 3\n" {
				t.Errorf("the report: %s", got)
			}
			checkImportedCooldowns(t, f, to)
			again := move(t, f.open(), to, "new")
			if again[0].State != Moved || again[0].Late != 0 {
				t.Errorf("again: %+v", again[0])
			}
			if diff := cmp.Diff(want, lines(t, to)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// checkImportedCooldowns checks those of the new ledger, and those that close
// the old one.
func checkImportedCooldowns(t *testing.T, f *fixture, to engine.Ledger) {
	t.Helper()
	got := map[string]string{}
	err := engine.New(to, nil).Account("my project~1").View(t.Context(), func(v *engine.View) {
		for _, c := range v.Cooldowns() {
			got[c.Name] = fmt.Sprint(time.UnixMicro(c.Until).UTC().Year(), " ", c.Text)
		}
	})
	if diff := cmp.Diff(map[string]string{"day": "2199 quota exceeded", "": "2198 stop"}, got); diff != "" ||
		err != nil {
		t.Error(err, diff)
	}
	closed := f.closed("my project~1")
	delete(closed, "over")
	const moved = "moved to new (ration ledger copy to a later release)"
	if diff := cmp.Diff(map[string]string{"day": "quota exceeded", "": moved}, closed); diff != "" {
		t.Error(diff)
	}
	if closed := f.closed("other"); closed[""] != moved {
		t.Errorf("the other account: %q", closed)
	}
}

// TestTheFirstReleaseIsImported, whose entries have no kinds.
func TestTheFirstReleaseIsImported(t *testing.T) {
	inRedis, _ := oldRedisFixture(t, "first-release")
	for _, test := range []struct {
		name         string
		f            *fixture
		units, calls int64
		keys         int
		by           map[string]int64 // units by method
		kinds        map[string]int
	}{
		{"SQLite", oldSQLiteFixture(t, "first-release"), 447, 267, 1,
			map[string]int64{"search.list": 170, "videos.list": 260, "channels.list": 11, "note": 0, "get": 6},
			map[string]int{"call": 267, "refunded": 2, "addition": 1}},
		{"Redis", inRedis, 549, 262, 2, map[string]int64{"search.list": 291, "videos.list": 258},
			map[string]int{"call": 262, "refunded": 1, "addition": 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := memory("new").connect()
			r := move(t, test.f.open(), to, "new")[0]
			if r.Units != test.units || r.Calls != test.calls || r.Keys != test.keys {
				t.Errorf("%+v; want %d units of %d calls, %d keys", r, test.units, test.calls, test.keys)
			}
			by, kinds := map[string]int64{}, map[string]int{}
			entries, _ := counted(t, to)
			for e := range maps.Values(entries) {
				by[e.Labels.Method] += e.Amounts.Units
				kinds[strings.Fields(entryLine("a", &e))[3]]++
			}
			if cmp.Diff(test.by, by) != "" || cmp.Diff(test.kinds, kinds) != "" {
				t.Errorf("%v, %v; want %v, %v", by, kinds, test.by, test.kinds)
			}
		})
	}
}

// TestALedgerInRedisIsImportedBesideItself: the new log has other keys.
func TestALedgerInRedisIsImportedBesideItself(t *testing.T) {
	_, server := oldRedisFixture(t, "second-release")
	to, err := redisledger.Open(server.URL(), &redisledger.Options{Import: true})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	move(t, NewOldRedis(to.Client(), ""), to, "old")
	l, err := redisledger.Open(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := lines(t, l); len(got) != 310 {
		t.Errorf("%d entries; want 310", len(got))
	}
}

// TestAnImportIsCompleted after it was interrupted, without what earlier
// releases record when they are told that the account has moved.
func TestAnImportIsCompleted(t *testing.T) {
	f := oldSQLiteFixture(t, "second-release")
	old, to := f.open(), memory("new").connect()
	left := &oldCooldown{until: moveUntil, reason: "moved to new" + moveID}
	if err := old.format.close(t.Context(), "other", left); err != nil {
		t.Fatal(err)
	}
	arriving := newLog(to, "new", "other")
	if ok, err := arriving.setMoved(t.Context(), engine.Arriving, "old"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if r := move(t, f.open(), to, "new")[1]; r.State != Unfinished || r.Units != 9 {
		t.Errorf("%+v", r)
	}
	c := &Copy{From: f.open(), To: memory("third").connect(), FromName: "old", ToName: "third"}
	_, err := c.Move(t.Context(), "other")
	if !strings.Contains(fmt.Sprint(err), "it has moved from old to new already") {
		t.Errorf("%v; want that it has moved", err)
	}
}

// TestOtherFilesAreNoEarlierLedger: a missing file, and one of another release
// or program.
func TestOtherFilesAreNoEarlierLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ration.db")
	l, err := sqliteledger.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	other := filepath.Join(t.TempDir(), "other.db")
	if err := os.WriteFile(other, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, path + ".missing", other} {
		if _, err := OpenOldSQLite(path); err == nil || !strings.Contains(err.Error(), ErrNotOld.Error()) {
			t.Errorf("%s: %v; want ErrNotOld", path, err)
		}
	}
}
