package jobs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/catalog"
)

// TestAnUnchangedPageIsCommittedForTheNewTick: a page that the upstream reports
// as not modified is committed for the new tick with its old content.
func TestAnUnchangedPageIsCommittedForTheNewTick(t *testing.T) {
	s := newScene(t, "  - {name: all, limit: 1000, window: 24h}",
		"[{trending: {pages: 4}}, {search: {queries: [music], pages: 2}}, categories]", nil, "US", "CA")
	first := s.run(t, t.Context())
	hits := func() []catalog.Hit {
		found, err := s.Catalog.Search(t.Context(), catalog.Query{Text: "music", Region: "CA", Limit: 50})
		if err != nil || len(found) == 0 {
			t.Fatalf("%d hits, %v", len(found), err)
		}
		return found
	}
	before, calls := hits(), len(s.upstream.Arrivals())
	s.Again = true
	second := s.run(t, t.Context())
	for i, region := range second.Regions {
		if was := first.Regions[i]; region.Err != nil || region.Videos != was.Videos {
			t.Errorf("%s: %d videos, %v; want the %d of the first run", region.Region, region.Videos, region.Err,
				was.Videos)
		}
	}
	again := s.upstream.Arrivals()[calls:]
	if len(again) != calls {
		t.Errorf("%d calls; want %d", len(again), calls)
	}
	for _, a := range again {
		if a.Status != 304 {
			t.Errorf("%s %v: status %d; want 304", a.Method, a.Query, a.Status)
		}
	}
	if diff := cmp.Diff(before, hits()); diff != "" {
		t.Error(diff)
	}
	s.agree(t)
}
