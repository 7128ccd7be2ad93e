package catalog

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAPassOfTheFirstReleaseGoesOn: a pass that the first release had not
// finished goes on at its checkpoint. That release wrote the fixture on
// 2026-11-22: DE's pass was done, and a budget stopped the one of US after two
// of three pages.
func TestAPassOfTheFirstReleaseGoesOn(t *testing.T) {
	packed, err := os.Open("testdata/first-release.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "catalog.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := openAt(t, path, &clock{t: time.Date(2026, 11, 22, 17, 52, 0, 0, time.UTC)})
	intact(t, c)
	tick := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	done, err := c.Pass(t.Context(), "DE", tick)
	if err != nil || done.FinishedAt.IsZero() || !done.Steps["trending"].Done || !done.Steps["categories"].Done {
		t.Errorf("DE: %+v, %v; want a pass that is done", done, err)
	}
	stopped, err := c.Pass(t.Context(), "US", tick)
	if at := stopped.Steps["trending"]; err != nil || !stopped.FinishedAt.IsZero() || at.Done || at.Next != "CGQQAA" ||
		at.Pages != 2 {
		t.Errorf("US: %+v, %v; want a pass that goes on after page 2", stopped, err)
	}
	counts, err := c.Counts(t.Context())
	if err != nil || counts.Videos != 234 {
		t.Errorf("%+v, %v; want 234 videos", counts, err)
	}
	hits, err := c.Search(t.Context(), Query{Text: "Käsespätzle", Region: "DE"})
	if err != nil || len(hits) == 0 {
		t.Errorf("%d hits, %v; want what the first release had indexed", len(hits), err)
	}
	commit(t, c, Page{Region: "US", Tick: tick, Step: "trending",
		Number: 2, Token: "CGQQAA", Done: true})
}
