package youtubetest

import (
	"net/url"
	"strconv"
	"testing"
)

// Tokens equal those of recorded answers, 2018 to 2023.
func TestPageTokensAreTheRealOnes(t *testing.T) {
	for _, c := range []struct {
		offset    int
		backwards bool
		token     string
	}{
		{2, false, "CAIQAA"}, {5, false, "CAUQAA"}, {10, false, "CAoQAA"}, {25, false, "CBkQAA"}, {50, false, "CDIQAA"},
		{100, false, "CGQQAA"}, {150, false, "CJYBEAA"}, {5, true, "CAUQAQ"}, {10, true, "CAoQAQ"},
		{25, true, "CBkQAQ"},
	} {
		if got := pageToken(c.offset, c.backwards); got != c.token {
			t.Errorf("pageToken(%d, %t) = %s, want %s", c.offset, c.backwards, got, c.token)
		}
		offset, backwards, ok := parsePageToken(c.token)
		if offset != c.offset || backwards != c.backwards || !ok {
			t.Errorf("parsePageToken(%s) = %d, %t, %t", c.token, offset, backwards, ok)
		}
	}
	for _, bad := range []string{"CDIQAA==", "CDIQ", "CDIQAg", "CDIQAB", "!", "EDIQAA", "CLIAEAA", "CP__________8BEAA",
		"CDIQAACDIQAA", " CDIQAA"} {
		if _, _, ok := parsePageToken(bad); ok {
			t.Errorf("parsePageToken(%q) accepted it", bad)
		}
	}
}

func FuzzParsePageToken(f *testing.F) {
	f.Add("CDIQAA")
	f.Add("CBkQAQ")
	f.Fuzz(func(t *testing.T, token string) {
		if offset, backwards, ok := parsePageToken(token); ok && pageToken(offset, backwards) != token {
			t.Errorf("%q is accepted but is not %q", token, pageToken(offset, backwards))
		}
	})
}

// Paging forwards and then backwards visits each item once per direction.
func TestPagesCoverEverythingBothWays(t *testing.T) {
	for _, n := range []int{0, 1, 49, 50, 51, 84, 120, 200, 500} {
		for _, size := range []int{1, 7, 50} {
			req := &request{query: url.Values{"maxResults": {strconv.Itoa(size)}}}
			walk := func(token string, next func(*listing) string) (seen int, last *listing) {
				for {
					req.query.Set("pageToken", token)
					p, bad := pageOf(req, "list", make([]resource, n), 1, func(r resource) resource { return r })
					if bad != nil {
						t.Fatalf("n=%d size=%d token %q: %v", n, size, token, bad.Message)
					}
					seen += len(p.Items)
					if token = next(p); token == "" {
						return seen, p
					}
				}
			}
			there, last := walk("", func(p *listing) string { return p.NextPageToken })
			if there != n {
				t.Errorf("n=%d size=%d: %d forwards", n, size, there)
			}
			if last.PrevPageToken == "" {
				continue
			}
			back, _ := walk(last.PrevPageToken, func(p *listing) string { return p.PrevPageToken })
			if back+len(last.Items) != n {
				t.Errorf("n=%d size=%d: %d backwards", n, size, back)
			}
		}
	}
}
