package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ids(hits []Hit) []string {
	var all []string
	for _, h := range hits {
		all = append(all, h.ID)
	}
	return all
}

// searchFindsTheBestMatchFirstCases are the cases of
// TestSearchFindsTheBestMatchFirst.
var searchFindsTheBestMatchFirstCases = []struct {
	q    Query
	want []string
}{
	{Query{Text: "cat"}, []string{"title", "channel", "tag", "description"}},
	{Query{Text: "CATS!"}, []string{"title", "channel", "tag", "description"}},
	{Query{Text: "cat", Limit: 2}, []string{"title", "channel"}},
	{Query{Text: "cat", MaxAge: 60 * time.Hour}, []string{"title", "description"}},
	{Query{Text: "cat", Region: "IN"}, nil},
	{Query{Text: "cat", Region: "US", MaxAge: 30 * time.Hour}, []string{"title"}},
	{Query{Text: "new york"}, []string{"title", "description"}},
	{Query{Text: `"new york" cat`}, []string{"title"}},
	{Query{Text: `"new york`}, []string{"title", "description"}},
	{Query{Text: "cat -york NOT NEAR(x)"}, nil}, // plain words, all of which must occur
	{Query{Text: "🎉 cat 🎉 york"}, []string{"title", "description"}},
	{Query{Text: "mor"}, nil},
	{Query{Text: "mor*"}, []string{"description"}},
	{Query{Text: "हिन्दी"}, []string{"hindi"}},
	{Query{Text: "हि"}, nil},
	{Query{Text: "東京"}, []string{"japanese"}},
	{Query{Text: "散歩"}, []string{"japanese"}},
	{Query{Text: "夜景"}, nil}, // inside a run: the documented limit
	{Query{Text: "music"}, []string{"emoji"}},
	{Query{Text: "cafe NAÏVE"}, []string{"accent"}},
	{Query{Text: "cafe\u0301"}, []string{"accent"}},
	{Query{Text: "run"}, []string{"twin-a", "twin-b", "twin-old"}}, // ties: newest, then id
}

func TestSearchFindsTheBestMatchFirst(t *testing.T) {
	c, _ := openTest(t)
	day := 24 * time.Hour
	video := func(id, title, description, channel string, age time.Duration, tags ...string) Video {
		return Video{ID: id, Title: title, Description: description, ChannelTitle: channel, PublishedAt: day0.Add(-age),
			Tags: tags, CategoryID: "10"}
	}
	commit(t, c, Page{Region: "US", Videos: []Video{
		video("title", "Cats of New York", "", "Zoo", day),
		video("description", "Morning", "a cat in the yard of a new hotel in York", "Zoo", 2*day),
		video("tag", "Evening", "", "Zoo", 3*day, "cat"),
		video("channel", "Noon", "", "Cat People", 40*day),
	}, FirstRank: 1, Categories: []Category{{ID: "10", Title: "Music"}}})
	commit(t, c, Page{Region: "IN", Videos: []Video{
		video("hindi", "हिन्दी गाने 2026", "", "Naya", day),
		video("japanese", "東京タワーの夜景、散歩", "", "Naya", day),
		video("emoji", "I ❤️music 1️⃣", "", "Naya", day),
		video("accent", "Café naïve", "", "Naya", day),
		video("twin-b", "Running", "", "Naya", day),
		video("twin-a", "Running", "", "Naya", day),
		video("twin-old", "Running", "", "Naya", 2*day),
	}, FirstRank: 1})
	for _, tc := range searchFindsTheBestMatchFirstCases {
		hits, err := c.Search(t.Context(), tc.q)
		if diff := cmp.Diff(tc.want, ids(hits)); err != nil || diff != "" {
			t.Errorf("%+v: %v (-want +got):\n%s", tc.q, err, diff)
		}
	}
	for _, text := range []string{"", " \t\n", "\x00", `"`, `""`, `" "`, "*", "-", "🎉", "❤️", "\u0301", "!?",
		"\xff"} {
		if _, err := c.Search(t.Context(), Query{Text: text}); !errors.Is(err, ErrEmptyQuery) {
			t.Errorf("%q: %v, want ErrEmptyQuery", text, err)
		}
	}
}

// A hit has its chart positions, per region.
func TestAHitHasItsCharts(t *testing.T) {
	c, k := openTest(t)
	v := Video{ID: "a/b?c", Title: "whale", CategoryID: "15"}
	commit(t, c, Page{Region: "US", Videos: []Video{{ID: "x"}, {ID: "y"}, v}, FirstRank: 1,
		Categories: []Category{{ID: "15", Title: "Pets & Animals"}}})
	commit(t, c, Page{Region: "GB", Videos: []Video{v}, FirstRank: 51})
	k.t = k.t.Add(6 * time.Hour)
	// It climbs while the chart is being fetched: two ranks at one tick.
	commit(t, c, Page{Region: "US", Tick: tick.Add(6 * time.Hour),
		Videos: []Video{{ID: "x"}, {ID: "y"}, {ID: "z"}, {ID: "u"}, v, {ID: "w"}, v}, FirstRank: 1})
	hits, err := c.Search(t.Context(), Query{Text: "whales"})
	if err != nil || len(hits) != 1 {
		t.Fatalf("%d hits, %v, want 1", len(hits), err)
	}
	want := []Chart{{Region: "GB", Best: 51, Last: 51, LastAt: day0}, {Region: "US", Best: 3, Last: 5, LastAt: k.t}}
	if diff := cmp.Diff(want, hits[0].Charts); diff != "" {
		t.Errorf("charts (-want +got):\n%s", diff)
	}
	if h := hits[0]; h.Category != "Pets & Animals" || h.URL() != "https://www.youtube.com/watch?v=a%2Fb%3Fc" {
		t.Errorf("category %q, address %s", h.Category, h.URL())
	}
}

// For a very common word only the newest matches are ranked: an older video
// that would rank first is missing, unless a filter leaves few matches.
func TestSearchIsBounded(t *testing.T) {
	c, _ := openTest(t)
	if c.matches != 5000 {
		t.Fatalf("a search ranks %d matches, want 5000", c.matches)
	}
	c.matches = 100
	commit(t, c, Page{Region: "GB", Videos: []Video{{ID: "oldest", Title: "surfing surfing surfing"}}})
	commit(t, c, Page{Region: "US", Videos: chart("v", 110)})
	if hits, err := c.Search(t.Context(), Query{Text: "surfing", Region: "GB"}); err != nil || len(hits) != 1 {
		t.Errorf("filtered: %d hits, %v, want the oldest", len(hits), err)
	}
	hits, err := c.Search(t.Context(), Query{Text: "surfing", Limit: 1 << 30})
	if err != nil || len(hits) != 100 {
		t.Fatalf("%d hits, %v, want 100", len(hits), err)
	}
	for _, h := range hits {
		if h.ID == "oldest" {
			t.Error("more than the newest matches were ranked")
		}
	}
	// FTS5 must deliver newest first by itself: a sorter would rank every
	// match first.
	rows, err := c.db.Query("EXPLAIN QUERY PLAN "+searchText(t), "x", "", nil, maxMatches, 20)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	_, inner, _ := strings.Cut(strings.Join(plan, "\n"), "MATERIALIZE found\n")
	inner, _, ok := strings.Cut(inner, "SCAN found")
	if !ok || !strings.HasPrefix(inner, "SCAN videos_fts VIRTUAL TABLE") || strings.Contains(inner, "TEMP B-TREE") {
		t.Errorf("the plan has changed:\n%s", strings.Join(plan, "\n"))
	}
}

func searchText(t *testing.T) string {
	_, text, ok := strings.Cut(queriesSQL, "-- name: search\n")
	if !ok {
		t.Fatal("no search query")
	}
	text, _, _ = strings.Cut(text, "-- name: ")
	return text
}

// nasty are the parts of queries that break query languages.
var nasty = []string{"a", "Z", "7", "running", "é", "\u0301", "हि", "न्दी", "東京", "กรุง",
	"🎉", "👨‍👩‍👧", "❤\ufe0f", "\u200d", `"`, `""`, "'", "*", "-", "+", "^", ":",
	"(", ")", "{", "}", ",", ";", ".", "\\", "%", "_", "\x00", "\x01", "\xff", "\u202e", "\ufffd", " ", "  ", "\n",
	"\t", "NEAR(", "AND", "OR", "NOT", "title:", "rowid", "--", "/*"}

// Any query returns hits or ErrEmptyQuery, and no other error. A stored video
// is found by its own text, as words, quoted, and word by word.
func TestEveryQueryIsValid(t *testing.T) {
	c, _ := openTest(t)
	text := rapid.Custom(func(r *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(nasty), 0, 12).Draw(r, "parts"),
			rapid.SampledFrom([]string{"", " "}).Draw(r, "between"))
	})
	pages := 0
	rapid.Check(t, func(r *rapid.T) {
		title := text.Draw(r, "title")
		if err := c.Commit(t.Context(),
			Page{Region: "US", Tick: tick, Step: "s", Number: pages,
				Videos: []Video{{ID: "v", Title: title}}}); err != nil {
			r.Fatal(err)
		}
		pages++
		find := func(query string, want bool) {
			hits, err := c.Search(t.Context(), Query{Text: query})
			if err != nil && !errors.Is(err, ErrEmptyQuery) || err == nil && want && len(hits) != 1 {
				r.Errorf("title %q, query %q: %d hits, %v", title, query, len(hits), err)
			}
		}
		find(text.Draw(r, "query"), false)
		find(title, true)
		find(`"`+strings.ReplaceAll(title, `"`, " ")+`"`, true)
		for _, w := range strings.Fields(title) {
			find(w, true)
		}
	})
	for _, unit := range nasty {
		for _, n := range []int{33, 10_000, 1_000_000} {
			if _, err := c.Search(t.Context(), Query{Text: strings.Repeat(unit, n)}); err != nil &&
				!errors.Is(err, ErrEmptyQuery) {
				t.Errorf("%d times %q: %v", n, unit, err)
			}
		}
	}
}

func FuzzSearch(f *testing.F) {
	c, _ := openTest(f)
	commit(f, c, Page{Videos: chart("v", 3)})
	f.Add(`surf "wind and" NEAR(x y, 3) -z title:surf a* ^b`)
	for _, s := range nasty {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := c.Search(t.Context(), Query{Text: text}); err != nil && !errors.Is(err, ErrEmptyQuery) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
