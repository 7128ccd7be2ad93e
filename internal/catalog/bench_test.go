package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkCommit stores pages of 50 videos never seen before, with
// descriptions of about 1 KB, each page in a transaction of its own at
// synchronous=FULL.
func BenchmarkCommit(b *testing.B) {
	c, _ := openTest(b)
	page := 0
	for b.Loop() {
		vs := chart(fmt.Sprint("v", page), 50)
		for i := range vs {
			vs[i].Description = strings.Repeat(fmt.Sprintf("word%d and some more text about it. ", (page*50+i)%997), 28)
		}
		commit(b, c, Page{Number: page, Videos: vs, FirstRank: 1 + 50*page})
		page++
	}
	b.ReportMetric(float64(50*page)/b.Elapsed().Seconds(), "videos/s")
}

// BenchmarkSearch asks for a word that every one of 50,000 videos has.
func BenchmarkSearch(b *testing.B) {
	c, _ := openTest(b)
	for i := range 100 {
		commit(b, c, Page{Number: i, Videos: chart(fmt.Sprint("v", i), 500), FirstRank: 1 + 500*i})
	}
	for b.Loop() {
		if hits, err := c.Search(b.Context(), Query{Text: "surfing waves"}); err != nil || len(hits) != defaultHits {
			b.Fatal(len(hits), err)
		}
	}
}
