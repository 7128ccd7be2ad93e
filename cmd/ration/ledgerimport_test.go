package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/testledger"
)

// earlierRelease has written the ledgers that are imported.
const earlierRelease = "second-release"

// newImportStand returns a stand whose costs.yaml has an account of those
// ledgers, and a function that runs a command line and checks its exit code.
func newImportStand(t *testing.T) (*stand, func(want int, args ...string) (out, text string)) {
	s := &stand{dir: t.TempDir()}
	s.write(t, "costs.yaml", "version: 1\naccount: other\ncosts: {videos.list: 1}\n"+
		"budgets: [{name: all, limit: 100000, window: 24h}]\n")
	return s, func(want int, args ...string) (out, text string) {
		t.Helper()
		code, out, text := s.run(t, nil, args...)
		if code != want {
			t.Fatalf("%q: exit code %d, want %d: %s%s", args, code, want, out, text)
		}
		return out, text
	}
}

func TestCopyImportsAFileOfAnEarlierRelease(t *testing.T) {
	t.Parallel()
	s, run := newImportStand(t)
	from, to := filepath.Join(s.dir, "old.db"), filepath.Join(s.dir, "new.db")
	if err := os.WriteFile(from, testledger.OldFile(t, earlierRelease), 0o600); err != nil {
		t.Fatal(err)
	}
	_, text := run(exitConfig, "spend", "videos.list", "--ledger", "sqlite:"+from)
	if !strings.Contains(text, "run ration ledger copy") {
		t.Errorf("%s; want what to run", text)
	}
	_, text = run(exitConfig, "ledger", "copy", "sqlite:"+from, "sqlite:"+from)
	if !strings.Contains(text, "copy it to a new file") {
		t.Errorf("%s; want another file", text)
	}
	for _, state := range []string{"ready", "moved"} {
		out, _ := run(exitDone, "ledger", "copy", "sqlite:"+from, "sqlite:"+to, "--grace", "0s", "--json")
		if !strings.Contains(out, `"account":"other","state":"`+state+`"`) || strings.Count(out, `"account":`) != 2 {
			t.Errorf("%s; want two accounts, %s", out, state)
		}
	}
	run(exitDone, "spend", "videos.list", "--ledger", "sqlite:"+to)
}

// TestCopyImportsALedgerInRedisInPlace: the address stays the same, and a later
// copy from it copies the new one.
func TestCopyImportsALedgerInRedisInPlace(t *testing.T) {
	t.Parallel()
	s, run := newImportStand(t)
	server := servers.StartRedis(t)
	for _, args := range testledger.OldCommands(t, earlierRelease) {
		server.Do(t, args...)
	}
	at := server.URL()
	if _, text := run(exitConfig, "spend", "videos.list", "--ledger", at); !strings.Contains(text,
		"ration ledger copy") {
		t.Errorf("%s; want what to run", text)
	}
	for _, state := range []string{"ready", "moved"} {
		out, _ := run(exitDone, "ledger", "copy", at, at, "--grace", "0s", "--json")
		if !strings.Contains(out, `"account":"other","state":"`+state+`"`) {
			t.Errorf("%s; want the other account, %s", out, state)
		}
	}
	before, _ := run(exitDone, "log", "--json", "--ledger", at)
	run(exitDone, "spend", "videos.list", "--ledger", at)
	to := "sqlite:" + filepath.Join(s.dir, "new.db")
	run(exitDone, "ledger", "copy", at, to, "--grace", "0s")
	after, _ := run(exitDone, "log", "--json", "--ledger", to)
	if strings.Count(after, "\n") != strings.Count(before, "\n")+1 {
		t.Errorf("%s; want what was imported, and one more:\n%s", after, before)
	}
}
