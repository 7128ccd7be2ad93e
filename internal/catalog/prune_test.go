package catalog

import (
	"path/filepath"
	"testing"
	"time"
)

// A row is deleted exactly thirty days after its last refresh, with the rows
// that refer to it.
func TestRowsArePrunedThirtyDaysAfterARefresh(t *testing.T) {
	c, k := openTest(t)
	ctx := t.Context()
	old := chart("old", pruneBatch+10) // more than one batch
	commit(t, c, Page{Videos: old, FirstRank: 1, Channels: []Channel{{ID: "UC0", Title: "Beach"}},
		Categories: []Category{{ID: "17", Title: "Sports"}}})
	commit(t, c, Page{Region: "GB", Videos: chart("kept", 3), FirstRank: 1})
	k.t = k.t.Add(24 * time.Hour)
	// A refresh keeps a video. A search that finds it again does not refresh
	// the fields that it lacks.
	commit(t, c, Page{Region: "GB", Tick: tick.Add(24 * time.Hour), Videos: chart("kept", 3), FirstRank: 1})
	commit(t, c, Page{Region: "GB", Tick: tick.Add(24 * time.Hour), Step: "search:sea", Videos: old[:1],
		Snippets: true})

	k.t = day0.Add(DefaultRetention)
	if p, err := c.Prune(ctx); err != nil || p != (Pruned{}) {
		t.Fatalf("at 30 days: %+v, %v, want nothing pruned", p, err)
	}
	k.t = k.t.Add(time.Second)
	if p, err := c.Prune(ctx); err != nil ||
		p != (Pruned{Videos: pruneBatch + 10, Positions: pruneBatch + 13, Channels: 1}) {
		t.Errorf("after 30 days: %+v, %v, want 510 videos, 513 positions and 1 channel", p, err)
	}
	intact(t, c)
	for query, want := range map[string]int{
		"SELECT count(*) FROM videos":                                      3,
		"SELECT count(*) FROM positions":                                   3,
		"SELECT count(*) FROM sightings":                                   3,
		"SELECT count(*) FROM categories":                                  0,
		"SELECT count(*) FROM videos_fts WHERE videos_fts MATCH 'surfing'": 3,
		"SELECT count(*) FROM passes WHERE region = 'US'":                  1, // the newest pass may be a finished one
		"SELECT count(*) FROM passes WHERE region = 'GB'":                  1,
	} {
		if got := one[int](t, c, query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
	if p, err := c.Prune(ctx); err != nil || p != (Pruned{}) {
		t.Errorf("again: %+v, %v, want nothing left to prune", p, err)
	}
}

func TestRetentionForEverPrunesNothing(t *testing.T) {
	k := &clock{t: day0}
	c, err := Open(filepath.Join(t.TempDir(), "c.db"), &Options{Now: k.now, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	commit(t, c, Page{Videos: chart("v", 1), Channels: []Channel{{ID: "UC0"}}})
	k.t = k.t.AddDate(50, 0, 0)
	if p, err := c.Prune(t.Context()); err != nil || p != (Pruned{}) {
		t.Errorf("got %+v, %v, want nothing pruned", p, err)
	}
	if ids, err := c.ClaimChannels(t.Context(), "US", 50); err != nil || len(ids) != 0 {
		t.Errorf("channels asked for again: %v, %v", ids, err)
	}
}
