package jobs_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
)

// TestUnreadableCatalogueFailsThePass: it fails before any call is charged.
func TestUnreadableCatalogueFailsThePass(t *testing.T) {
	for _, fetch := range []string{"[trending]", "[channels]"} {
		s := newScene(t, plenty, fetch, nil, "US")
		s.Again = true
		if err := os.Rename(s.path, filepath.Join(filepath.Dir(s.path), "moved.db")); err != nil {
			t.Fatal(err)
		}
		if fetch == "[trending]" {
			s.Catalog.Close()
			if _, err := s.Run(t.Context(), s.regions); err == nil {
				t.Error("a run without its catalogue begins; want an error")
			}
		} else if report := s.run(t, t.Context()); report.Outcome != jobs.Failed || !errors.Is(report.Err,
			catalog.ErrReplaced) {
			t.Errorf("%s: %v; want failed", report.Outcome, report.Err)
		}
		if s.agree(t) != 0 {
			t.Errorf("%s: %d units were spent; want none", fetch, s.agree(t))
		}
	}
}

// TestFailedClaimFailsThePass: a failed claim is not mistaken for an empty one.
func TestFailedClaimFailsThePass(t *testing.T) {
	s := newScene(t, plenty, "[channels]", nil, "US")
	db, err := sql.Open("sqlite", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DROP TABLE claims"); err != nil {
		t.Fatal(err)
	}
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed {
		t.Errorf("%s: %v; want failed", report.Outcome, report.Err)
	}
}

// TestUnreadableTableFailsThePass: a pass whose progress or known pages cannot
// be read does not pay for pages that it may have.
func TestUnreadableTableFailsThePass(t *testing.T) {
	for _, table := range []string{"checkpoints", "pages"} {
		s := newScene(t, plenty, "[trending]", nil, "US")
		db, err := sql.Open("sqlite", s.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec("ALTER TABLE " + table + " RENAME TO gone"); err != nil {
			t.Fatal(err)
		}
		if report := s.run(t, t.Context()); report.Outcome != jobs.Failed || s.agree(t) != 0 {
			t.Errorf("without %s: %s (%v) after %d units; want failed without a call", table, report.Outcome,
				report.Err, s.agree(t))
		}
	}
}

// TestFailedRestartFailsThePass: a pass that --again could not restart is not
// reported as complete.
func TestFailedRestartFailsThePass(t *testing.T) {
	s := newScene(t, plenty, "[trending]", nil, "US")
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete {
		t.Fatal(report.Err)
	}
	spent := s.agree(t)
	db, err := sql.Open("sqlite", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _,
		err := db.Exec("CREATE TRIGGER stuck BEFORE DELETE ON checkpoints " +
		"BEGIN SELECT RAISE(ABORT, 'stuck'); END"); err != nil {
		t.Fatal(err)
	}
	s.Again = true
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed ||
		!strings.Contains(report.Err.Error(), "stuck") || s.agree(t) != spent {
		t.Errorf("%s (%v) after %d more units; want failed without a call", report.Outcome, report.Err,
			s.agree(t)-spent)
	}
}
