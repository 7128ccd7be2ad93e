package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestReloadSaysNothingOfWhatChanged: SIGHUP took new limits, regions and a new
// key without a word, and moved to another, empty ledger. It logs a line for each
// change, and refuses to move as a whole; a restart moves, and warns.
func TestReloadSaysNothingOfWhatChanged(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US", "GB")
	s.write(t, "key", "the-first-key\n")
	d := s.serve(t, []string{"YOUTUBE_API_KEY="}, "--key-file", filepath.Join(s.dir, "key"))
	d.says(`msg=serving regions=2`)
	d.says(`msg=pass region=US .* outcome=complete`)
	d.says(`msg=pass region=GB .* outcome=complete`)

	costs, regions := mustRead(t, filepath.Join(s.dir, "costs.yaml")), mustRead(t, filepath.Join(s.dir, "regions.yaml"))
	changed := strings.NewReplacer("limit: 9500, window: 24h", "limit: 9000, window: 23h, except: [channels.list]", "videos.list: 1", "videos.list: 2").Replace(costs) +
		"when_ledger_down: {default: {allow: 7}}\n"
	s.write(t, "costs.yaml", changed)
	s.write(t, "regions.yaml", strings.NewReplacer("GB: {}", "IN: {fetch: [categories]}", "pages: 1", "pages: 2").Replace(regions))
	s.write(t, "key", "the-second-key\n")
	d.Process.Signal(syscall.SIGHUP)
	for _, line := range []string{"budget all: limit 9500 -> 9000", "budget all: window 24h -> 23h", `budget all: except none -> \[channels.list\]`,
		"cost of videos.list: units 1 -> 2", "when_ledger_down: added, rules all other calls: allow 7", "region GB: removed", "region IN: added, .*fetch categories 1", "region US: fetch trending 1 -> trending 2", "key: changed"} {
		d.says(`level=INFO msg="configuration changed" what="` + line)
	}
	d.Process.Signal(syscall.SIGHUP)
	d.says(`msg="configuration read again: nothing changed"`)

	s.write(t, "costs.yaml", strings.NewReplacer("sqlite:ration.db", "sqlite:other.db", "limit: 9000", "limit: 8000").Replace(changed))
	d.Process.Signal(syscall.SIGHUP)
	d.says(`level=ERROR msg="configuration not loaded" reason="the files name another ledger, sqlite:.*other.db instead of sqlite:.*ration.db, .*; restart to move there`)
	d.says(`level=WARN msg="the old configuration stays in force"`)
	d.ends(syscall.SIGTERM)
	if text := d.text(); strings.Contains(text, "9000 -> 8000") || strings.Contains(text, "the-first-key") || strings.Contains(text, "the-second-key") ||
		strings.Count(text, "configuration changed") != 9 {
		t.Errorf("it says\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "other.db")); err == nil {
		t.Error("the refused ledger was made")
	}

	again := s.serve(t, nil)
	again.says(`level=WARN msg="empty ledger" reason="the ledger sqlite:.*other.db is empty, and the last run here was on sqlite:.*ration.db: .*name the old one again"`)
	again.ends(syscall.SIGTERM)
	third := s.serve(t, nil)
	third.says(`msg=serving`)
	third.ends(syscall.SIGTERM)
	if strings.Contains(third.text(), "empty ledger") {
		t.Errorf("it warns again:\n%s", third.text())
	}
}

// TestRunOnAnotherEmptyLedger: run warns as serve does, off a terminal and with
// -q, once; the file that remembers the ledger has no secret.
func TestRunOnAnotherEmptyLedger(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	run := func(ledger string) string {
		t.Helper()
		code, out, text := s.run(t, nil, "run", "-q", "--again", "--ledger", ledger)
		if code != exitDone {
			t.Fatalf("exit code %d: %s", code, text)
		}
		return out + text
	}
	one, two := "sqlite:"+filepath.Join(s.dir, "one.db"), "sqlite:"+filepath.Join(s.dir, "two.db")
	for i, c := range []struct {
		ledger string
		warns  bool
	}{{one, false}, {one, false}, {two, true}, {two, false}, {one, false}, {one + "?sync=normal", false}} {
		warned := regexp.MustCompile(`^ration: the ledger sqlite:\S+two\.db is empty, and the last run here was on sqlite:\S+one\.db: `).MatchString(run(c.ledger))
		if warned != c.warns {
			t.Errorf("run %d on %s: warned %v", i, c.ledger, warned)
		}
	}
}
