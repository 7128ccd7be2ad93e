package catalog

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stored reads a video back as a search shows it.
func stored(t *testing.T, c *Catalog, id, word string) Video {
	t.Helper()
	hits, err := c.Search(t.Context(), Query{Text: word, Limit: maxMatches})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		if h.ID == id {
			return h.Video
		}
	}
	t.Fatalf("%q does not find %s", word, id)
	return Video{}
}

func TestASnippetLeavesAFullVideo(t *testing.T) {
	published := day0.Add(-48 * time.Hour)
	full := Video{ID: "dQw4w9WgXcQ", Title: `Tom & "Jerry"`, Description: "the whole description", ChannelID: "UC1",
		ChannelTitle: "Cats",
		CategoryID:   "1", PublishedAt: published, Tags: []string{"mouse", "cat"}, Views: count(100), Likes: count(10),
		Comments: count(0)}
	snippet := Video{ID: full.ID, Title: "Tom &amp; &quot;Jerry&quot;", Description: "the whole ...", ChannelID: "UC1",
		ChannelTitle: "Cats", PublishedAt: published}
	asFound := snippet
	asFound.Title = full.Title
	hidden := full
	hidden.Likes, hidden.Tags, hidden.Views = nil, nil, count(101)
	renamed := snippet
	renamed.Title = "Tom &amp; Spike"
	fullRenamed := full
	fullRenamed.Title = "Tom & Spike"
	literal := full
	literal.Title = "Tom &amp; Jerry, spelled so"
	dirty := full
	dirty.Title, dirty.Description, dirty.Tags = "Tom\x00 \xff", "line\nline", []string{"two\nlines"}
	cleaned := full
	cleaned.Title, cleaned.Description, cleaned.Tags = "Tom  \uFFFD", "line\nline", []string{"two lines"}

	type write struct {
		v       Video
		snippet bool
	}
	for _, tc := range []struct {
		name   string
		writes []write
		want   Video
	}{
		{"a snippet's title is unescaped", []write{{snippet, true}}, asFound},
		{"a full row's title is taken as it is", []write{{literal, false}}, literal},
		{"a full row completes a snippet", []write{{snippet, true}, {full, false}}, full},
		{"a snippet wipes nothing", []write{{full, false}, {snippet, true}}, full},
		{"a snippet brings a new title", []write{{full, false}, {renamed, true}}, fullRenamed},
		{"a full row takes counts and tags away", []write{{full, false}, {hidden, false}}, hidden},
		{"text is made storable", []write{{dirty, false}}, cleaned},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := openTest(t)
			for i, w := range tc.writes {
				commit(t, c, Page{Step: "search:tom", Number: i, Videos: []Video{w.v}, Snippets: w.snippet})
			}
			if diff := cmp.Diff(tc.want, stored(t, c, full.ID, "tom")); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			intact(t, c)
		})
	}
}

// The index follows a changed title: the old words no longer find the video.
func TestIndexFollowsUpsert(t *testing.T) {
	c, _ := openTest(t)
	v := chart("v", 1)[0]
	commit(t, c, Page{Videos: []Video{v}})
	v.Title = "Gliding"
	commit(t, c, Page{Number: 1, Videos: []Video{v}})
	for word, want := range map[string]int{"surfing": 0, "gliding": 1, "waves": 1} {
		if hits, err := c.Search(t.Context(), Query{Text: word}); err != nil || len(hits) != want {
			t.Errorf("%s: %d hits, %v, want %d", word, len(hits), err, want)
		}
	}
	intact(t, c)
}

// A page that is committed again after its first answer was lost leaves the
// same rows and the same checkpoint; a page out of order leaves nothing.
func TestAPageCommittedAgainIsStoredOnce(t *testing.T) {
	c, k := openTest(t)
	first := Page{Region: "US", Tick: tick, Step: "trending",
		Videos: chart("v", 50), FirstRank: 1, Next: "CDIQAA"}
	second := Page{Region: "US", Tick: tick, Step: "trending",
		Number: 1, Videos: chart("w", 50), FirstRank: 51,
		Done: true}
	for i, p := range []Page{first, first, second, second} {
		k.t = k.t.Add(time.Second)
		if err := c.Commit(t.Context(), p); err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	if n, err := c.Counts(t.Context()); err != nil || n.Videos != 100 || n.Positions != 100 {
		t.Errorf("got %+v, %v, want 100 videos and positions", n, err)
	}
	for _, number := range []int{0, 3} {
		p := first
		p.Number, p.Videos = number, chart("x", 1)
		if err := c.Commit(t.Context(), p); !errors.Is(err, ErrMoved) {
			t.Errorf("page %d when 2 are done: %v, want ErrMoved", number, err)
		}
	}
	want := PassState{Steps: map[string]Checkpoint{"trending": {Pages: 2, Videos: 100, Done: true}}}
	got, err := c.Pass(t.Context(), "US", tick)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("progress: %v (-want +got):\n%s", err, diff)
	}
	if n := one[int](t, c, "SELECT count(*) FROM videos WHERE id LIKE 'x%'"); n != 0 {
		t.Errorf("%d videos of a page out of turn were stored", n)
	}
}

func TestCancelledCommitStoresNothing(t *testing.T) {
	c, _ := openTest(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := Page{Region: "US", Tick: tick, Step: "trending", Videos: chart("v", 50), FirstRank: 1}
	if err := c.Commit(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	if err := c.Commit(context.WithoutCancel(ctx), p); err != nil {
		t.Errorf("with a context of its own: %v", err)
	}
	if err := c.Commit(t.Context(), Page{Region: "US"}); err == nil || !strings.Contains(err.Error(), "tick") {
		t.Errorf("a page of no pass: %v, want an error", err)
	}
}

func TestPassIsFinishedRestartedAndReplaced(t *testing.T) {
	c, k := openTest(t)
	ctx := t.Context()
	read := func(tick time.Time) PassState {
		t.Helper()
		p, err := c.Pass(ctx, "US", tick)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := read(tick); p.Steps == nil || p.Steps["trending"].Pages != 0 {
		t.Errorf("before the first page: %+v", p)
	}
	commit(t, c, Page{Videos: chart("v", 50), FirstRank: 1, Next: "A"})
	commit(t, c, Page{Step: "search:music", Videos: chart("s", 5), Snippets: true, Done: true})
	commit(t, c, Page{Region: "GB", Next: "B"})
	commit(t, c, Page{Number: 1, Videos: chart("w", 50), FirstRank: 51, Done: true})
	k.t = k.t.Add(time.Minute)
	if err := c.FinishPass(ctx, "US", tick); err != nil {
		t.Fatal(err)
	}
	if p := read(tick); !p.FinishedAt.Equal(k.t) || len(p.Steps) != 2 {
		t.Errorf("finished: %+v, want two steps and %v", p, k.t)
	}

	// --again: from the start; a chart that has become shorter loses its tail.
	if _, err := c.Restart(ctx, "US", tick); err != nil {
		t.Fatal(err)
	}
	if p := read(tick); !p.FinishedAt.IsZero() || len(p.Steps) != 0 {
		t.Errorf("restarted: %+v, want nothing done", p)
	}
	commit(t, c, Page{Videos: chart("v", 30), FirstRank: 1, Done: true})
	if n := one[int](t, c, "SELECT count(*) FROM positions WHERE region = 'US'"); n != 30 {
		t.Errorf("%d positions after the shorter chart, want 30", n)
	}

	// The next tick drops the region's older checkpoints, and no other's.
	next := tick.Add(6 * time.Hour)
	commit(t, c, Page{Tick: next, Videos: chart("v", 10), FirstRank: 1, Next: "C"})
	if p := read(tick); len(p.Steps) != 0 {
		t.Errorf("an older tick keeps %+v", p.Steps)
	}
	if p := read(next); p.Steps["trending"].Next != "C" {
		t.Errorf("the new tick has %+v", p.Steps)
	}
	if p, err := c.Pass(ctx, "GB", tick); err != nil || p.Steps["trending"].Next != "B" {
		t.Errorf("another region has %+v, %v", p, err)
	}
	if n := one[int](t, c, "SELECT count(*) FROM positions WHERE region = 'US'"); n != 40 {
		t.Errorf("%d positions, want both ticks' 40", n)
	}
}

// A region whose passes never finish moves to the end of the order like
// any other.
func TestAnUnfinishedRegionMovesToTheEnd(t *testing.T) {
	c, k := openTest(t)
	commit(t, c, Page{Region: "DE"})
	k.t = k.t.Add(time.Minute)
	commit(t, c, Page{Region: "US"})
	if err := c.FinishPass(t.Context(), "US", tick); err != nil {
		t.Fatal(err)
	}
	k.t = k.t.Add(time.Minute)
	commit(t, c, Page{Region: "DE", Number: 1})
	got, err := c.LongestUnfetched(t.Context(), []string{"DE", "US", "GB", "AU"})
	if diff := cmp.Diff([]string{"GB", "AU", "US", "DE"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	all, err := c.Regions(t.Context())
	want := map[string]Region{
		"DE": {Tick: tick, FetchedAt: day0.Add(2 * time.Minute)},
		"US": {Tick: tick, FetchedAt: day0.Add(time.Minute), FinishedAt: day0.Add(time.Minute)},
	}
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestCommitIsAtomic: if any part of a page cannot be stored, the commit fails
// and the checkpoint stays.
func TestCommitIsAtomic(t *testing.T) {
	page := Page{Region: "US", Tick: tick, Step: "trending", Videos: chart("v", 3),
		FirstRank: 1, ETag: "e", Done: true,
		Channels: []Channel{{ID: "UC1"}}, MissingChannels: []string{"UC2"},
		Categories: []Category{{ID: "10", Title: "Music"}}}
	for _, event := range []string{"INSERT ON passes", "INSERT ON checkpoints", "DELETE ON checkpoints",
		"INSERT ON videos", "INSERT ON sightings", "INSERT ON positions",
		"DELETE ON positions", "INSERT ON channels WHEN new.id = 'UC1'", "INSERT ON channels WHEN new.id = 'UC2'",
		"DELETE ON claims WHEN old.channel = 'UC1'",
		"DELETE ON claims WHEN old.channel = 'UC2'", "INSERT ON categories", "INSERT ON pages"} {
		t.Run(event, func(t *testing.T) {
			c, _ := openTest(t)
			earlier := page
			earlier.Tick, earlier.Videos, earlier.Channels, earlier.MissingChannels,
				earlier.Categories = tick.Add(-time.Hour), nil, nil, nil, nil
			commit(t, c, earlier) // whose checkpoint the page drops
			if _, err := c.db.Exec("INSERT INTO claims VALUES ('UC1', 'US', 0), ('UC2', 'US', 0); " +
				"INSERT INTO positions VALUES ('US', 'trending', " + strconv.FormatInt(tick.UnixMilli(), 10) +
				", 9, 1, 0); " +
				"CREATE TRIGGER broken BEFORE " + event + " BEGIN SELECT RAISE(ABORT, 'broken'); END"); err != nil {
				t.Fatal(err)
			}
			if err := c.Commit(t.Context(), page); err == nil || !strings.Contains(err.Error(), "broken") {
				t.Errorf("the commit says %v; want that it is broken", err)
			}
			p, err := c.Pass(t.Context(), "US", tick)
			if n, _ := c.Counts(t.Context()); err != nil || len(p.Steps) != 0 || n.Videos != 0 || n.Positions != 1 ||
				n.Channels != 0 {
				t.Errorf("%+v, %+v, %v after it; want nothing of the page", p, n, err)
			}
			if _, err := c.db.Exec("DROP TRIGGER broken"); err != nil {
				t.Fatal(err)
			}
			commit(t, c, page)
		})
	}
}

// TestPageWithoutRanksIsNotAChart: results of a search have no chart position.
func TestPageWithoutRanksIsNotAChart(t *testing.T) {
	c, _ := openTest(t)
	commit(t, c, Page{Step: "search:surf", Videos: chart("v", 5), Snippets: true, Done: true})
	if n, err := c.Counts(t.Context()); err != nil || n.Videos != 5 || n.Positions != 0 {
		t.Errorf("%+v, %v; want five videos without a position", n, err)
	}
}

// TestVideoWithoutAnIDLeavesItsRankEmpty, and the ranks behind it as they are.
func TestVideoWithoutAnIDLeavesItsRankEmpty(t *testing.T) {
	c, _ := openTest(t)
	videos := chart("v", 3)
	videos[1].ID = ""
	commit(t, c, Page{Videos: videos, FirstRank: 1, Done: true})
	ranks := one[string](t, c,
		"SELECT group_concat(rank || ' ' || v.id, ', ') FROM positions p JOIN videos v ON v.n = p.video")
	if n, err := c.Counts(t.Context()); err != nil || n.Videos != 2 || ranks != "1 v-0, 3 v-2" {
		t.Errorf("%+v, %v with ranks %s; want two videos, at 1 and 3", n, err, ranks)
	}
}
