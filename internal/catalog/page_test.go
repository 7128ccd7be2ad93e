package catalog

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestKnownPageLastsAsLongAsTheRetention: the newest page of a step and token
// comes back as it was committed, until it is older than the retention.
func TestKnownPageLastsAsLongAsTheRetention(t *testing.T) {
	clock := &clock{t: day0}
	c := openAt(t, filepath.Join(t.TempDir(), "catalog.db"), clock)
	page := Page{Region: "US", Tick: day0, Step: "trending", Token: "",
		Next: "CDIQAA", ETag: "one", FirstRank: 1,
		Videos: []Video{{ID: "a", Title: "A", Tags: []string{"x"}, Views: new(int64(7))}, {ID: "b"}}}
	for _, p := range []Page{page, {Region: "GB", Tick: day0, Step: "trending", ETag: "two"},
		{Region: "US", Tick: day0, Step: "search:x"}} {
		if err := c.Commit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	known := func(step, token string) Page {
		t.Helper()
		p, err := c.KnownPage(t.Context(), "US", step, token)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if diff := cmp.Diff(page, known("trending", "")); diff != "" {
		t.Error(diff)
	}
	for _, none := range [][2]string{{"trending", "CDIQAA"}, {"search:x", ""}} {
		if p := known(none[0], none[1]); p.ETag != "" {
			t.Errorf("%v: %+v; want none", none, p)
		}
	}
	clock.t = day0.Add(DefaultRetention + time.Hour)
	if _, err := c.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := known("trending", ""); p.ETag != "" {
		t.Errorf("after the retention: %+v; want none", p)
	}
}

// TestAnOlderCatalogueIsBroughtUpToDate: a catalogue of an older version is
// brought up to date when it is opened for writing, with all that is in it.
func TestAnOlderCatalogueIsBroughtUpToDate(t *testing.T) {
	for version, schema := range []string{1: schemaSQL, 2: schemaSQL + schema2SQL,
		3: schemaSQL + schema2SQL + schema3SQL, 4: schemaSQL + schema2SQL + schema3SQL + schema4SQL} {
		if schema == "" {
			continue
		}
		path := filepath.Join(t.TempDir(), "catalog.db")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		script := schema +
			fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; INSERT INTO categories VALUES ('US', "+
				"'10', 'Music', 0);", applicationID, version)
		if _, err := db.Exec(script); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenExisting(path, nil); !errors.Is(err, ErrOlder) {
			t.Errorf("version %d for reading: %v; want ErrOlder", version, err)
		}
		c := openAt(t, path, &clock{t: day0})
		commit(t, c, Page{Step: "categories", ETag: "e"})
		commit(t, c, Page{Videos: []Video{{ID: "a", ChannelID: "UC1"}}})
		claimed(t, c, "US", 50, "UC1")
		again, err := OpenExisting(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		var titles int
		if err := again.db.QueryRow("SELECT count(*) FROM categories WHERE title = 'Music'").Scan(
			&titles); err != nil || titles != 1 {
			t.Errorf("version %d: %d categories, %v; want the one there was", version, titles, err)
		}
	}
}
