package main

import (
	"path/filepath"
	"regexp"
	"testing"
)

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
