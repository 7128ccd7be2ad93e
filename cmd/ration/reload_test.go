package main

import (
	"path/filepath"
	"regexp"
	"testing"
)

// TestRunWarnsOfAnotherEmptyLedger: run warns as serve does, off a terminal and
// with -q, once; the file that remembers the ledger has no secret.
func TestRunWarnsOfAnotherEmptyLedger(t *testing.T) {
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
		warned := regexp.MustCompile(`^ration: the ledger sqlite:\S+two\.db is empty, and the one that this ` +
			`costs.yaml used before is sqlite:\S+one\.db: `).MatchString(run(c.ledger))
		if warned != c.warns {
			t.Errorf("run %d on %s: warned %v", i, c.ledger, warned)
		}
	}
}

// TestDoctorWarnsOfAnEmptyLedgerUntilSpendHas: doctor and status warn, of a
// file that does not exist too, until spend has warned.
func TestDoctorWarnsOfAnEmptyLedgerUntilSpendHas(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	warns := func(ledger string, args ...string) bool {
		t.Helper()
		code, out, text := s.run(t, nil, append(args, "--ledger", ledger)...)
		if code != exitDone {
			t.Fatalf("%v: exit code %d: %s%s", args, code, out, text)
		}
		return regexp.MustCompile(`the ledger sqlite:\S+two\.db is empty, and the\s+one that ` +
			`this\s+costs.yaml\s+used\s+before\s+is\s+sqlite:\S+one\.db: `).MatchString(out + text)
	}
	one, two := "sqlite:"+filepath.Join(s.dir, "one.db"), "sqlite:"+filepath.Join(s.dir, "two.db")
	if warns(one, "spend", "videos.list") {
		t.Error("the first ledger is taken for another one")
	}
	for _, want := range []bool{true, false} {
		for _, args := range [][]string{{"doctor"}, {"status"}, {"spend", "videos.list"}} {
			if warned := warns(two, args...); warned != want {
				t.Errorf("%v: warned %v", args, warned)
			}
		}
	}
}
