package web_test

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// TestSearchFindsNamesWithSpaces: names with spaces could not be searched,
// nor entries without an attribute; and a name could turn the text beside
// it around.
func TestSearchFindsNamesWithSpaces(t *testing.T) {
	s := newScene(t, sceneOptions{})
	for _, c := range []quota.Caller{{Job: "nightly fetch", Region: "New York"}, {Job: "nightly", Region: "US"},
		{Job: "a \u202eb\u2066"}, {Region: `"q" r`}} {
		if _, err := s.Guard().Spend(t.Context(), quota.Call{Account: "my-project", Method: "videos.list", Units: 1,
			Caller: c}); err != nil {
			t.Fatal(err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"host:" + host: 4, "host:other": 0, "key:-": 4,
		`job:"nightly fetch"`: 1, `job:nightly`: 1, `nightly`: 2, `"nightly fetch"`: 1, `region:"New York" nightly`: 1,
		`region:-`: 1, `region:`: 1, `region:""`: 1, `job:- videos`: 1, `region:"\"q\" r"`: 1, `job:"nightly`: 0,
		`job:"a \u202eb\u2066"`: 1, `job:nobody`: 0,
	} {
		r := s.fetch("/?" + url.Values{"q": {query}}.Encode())
		_, rows, _ := strings.Cut(r.text, `id="found"`)
		rows, _, _ = strings.Cut(rows, "</section>")
		if got := strings.Count(rows, "<tr>") - min(1, strings.Count(rows, "<thead>")); got != want {
			t.Errorf("%s finds %d entries; want %d in %.2000s", query, got, want, rows)
		}
		if strings.ContainsFunc(r.text, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("the page of %s has control characters", query)
		}
	}
}

// TestTheChartKeepsCorrectionsApartFromJobs: the chart by job added
// corrections to the calls of a job with their name.
func TestTheChartKeepsCorrectionsApartFromJobs(t *testing.T) {
	s := newScene(t, sceneOptions{})
	s.spend("videos.list", "US", "reconcile", 5)
	correction := quota.Call{Account: "my-project", Method: "reconcile", Units: 40,
		Caller: quota.Caller{Lane: "manual", Job: "reconcile"}}
	if err := s.Guard().Note(t.Context(), quota.Note{Call: correction, Kind: quota.EntryCorrection}); err != nil {
		t.Fatal(err)
	}
	page := s.fetch("/?" + url.Values{"by": {"job"}, "q": {"job:" + usage.Corrections}}.Encode()).text
	contains(t, page, `</svg> (corrections) <data value="40">`, `</svg> reconcile <data value="5">`)
	_, found, _ := strings.Cut(page, `id="found"`)
	if found, _, _ = strings.Cut(found, "</section>"); strings.Count(found, "<tr>") != 2 ||
		!strings.Contains(found, `<data value="40">`) {
		t.Errorf("the search finds more or less than the correction: %s", found)
	}
}
