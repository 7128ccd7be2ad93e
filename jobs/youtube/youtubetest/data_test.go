package youtubetest_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"google.golang.org/api/youtube/v3"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// dataFile returns the path of a file of recorded data. Few machines have these
// files beside the repository; tests skip what needs them elsewhere.
func dataFile(name string) string {
	root := filepath.Join("..", "..", "..")
	for _, up := range []string{"..", filepath.Join("..", "..")} {
		if path := filepath.Join(root, up, "shared", "data", name); exists(path) {
			return path
		}
	}
	return filepath.Join(root, "..", "shared", "data", name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// traitsOf names the traits of a video that fetchers often mishandle.
func traitsOf(v youtubetest.Video) (traits []string) {
	is := func(trait string, yes bool) {
		if yes {
			traits = append(traits, trait)
		}
	}
	is("minus", v.ID[0] == '-')
	is("underscore", v.ID[0] == '_')
	is("no tags", len(v.Tags) == 0)
	is("no likes", v.Likes == nil)
	is("no comments", v.Comments == nil)
	is("no text", v.Description == "")
	is("quote", strings.Contains(v.Title, `"`))
	is("apostrophe", strings.Contains(v.Title, "'"))
	is("ampersand", strings.Contains(v.Title, "&"))
	for name, table := range map[string]*unicode.RangeTable{
		"emoji": unicode.So, "han": unicode.Han, "hangul": unicode.Hangul, "kana": unicode.Hiragana,
		"devanagari": unicode.Devanagari,
		"tamil":      unicode.Tamil, "gurmukhi": unicode.Gurmukhi, "cyrillic": unicode.Cyrillic,
		"arabic": unicode.Arabic,
		"latin":  unicode.Latin,
	} {
		is(name, strings.ContainsFunc(v.Title, func(r rune) bool { return unicode.Is(table, r) }))
	}
	return traits
}

// The generated charts have the traits that fetchers often mishandle, and are
// always the same.
func TestDefaultDataHasTheTraitsOfRealCharts(t *testing.T) {
	data := youtubetest.DefaultData()
	if !slices.Equal(data.Regions(), []string{"AU", "BR", "CA", "DE", "FR", "GB", "IN", "US"}) {
		t.Errorf("regions %v", data.Regions())
	}
	traits := map[string]int{}
	real := regexp.MustCompile(`^[A-Za-z0-9_-]{10}[AEIMQUYcgkosw048]$`)
	regions, channels, categories := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, region := range data.Regions() {
		chart, seen := data.Chart(region), map[string]bool{}
		if want := map[string]int{"AU": 120, "CA": 84}[region]; len(chart) != want && (want != 0 || len(chart) != 200) {
			t.Errorf("%s has %d videos", region, len(chart))
		}
		for _, v := range chart {
			if !real.MatchString(v.ID) || seen[v.ID] || len(v.ChannelID) != 24 || v.PublishedAt.IsZero() ||
				len([]rune(v.Title)) > 100 || strings.Contains(v.Title, "{}") {
				t.Errorf("%s: %+v", region, v)
			}
			seen[v.ID] = true
			if regions[v.ID]++; regions[v.ID] > 1 {
				traits["several regions"]++
				continue
			}
			channels[v.ChannelID]++
			categories[v.CategoryID] = true
			for _, trait := range traitsOf(v) {
				traits[trait]++
			}
		}
	}
	for trait, n := range traits {
		if n < 3 {
			t.Errorf("%d videos with: %s", n, trait)
		}
	}
	if len(traits) != 20 || len(channels)*3 > len(regions) || categories["19"] || categories["27"] || categories["29"] {
		t.Errorf("traits %v, %d channels of %d videos, categories %v", traits, len(channels), len(regions), categories)
	}
	if again := youtubetest.DefaultData(); !reflect.DeepEqual(again, data) {
		t.Error("made anew it differs")
	}
	// This line must not change from one release to the next.
	if v := data.Chart("US")[0]; v.ID+" "+v.Title != goldenFirst {
		t.Errorf("the US chart begins with %s %s", v.ID, v.Title)
	}
}

const goldenFirst = `cM_5jZLtl0o Paper Lanterns - "Live at the Harbour"`

// lines are two days of one region and one day of another, with one video on
// both days.
const lines = `{"region":"US","trendingDate":"2020-08-12","rank":1,"id":"-aaaaaaaaaA","title":"old & \"gone\"","channelId":"UCa","channelTitle":"A","categoryId":"10","publishedAt":"2020-08-10T19:20:14Z","tags":[],"viewCount":1,"likeCount":null,"dislikeCount":5,"commentCount":null}
{"region":"US","trendingDate":"2020-08-13","rank":2,"id":"bbbbbbbbbbA","title":"second","channelId":"UCb","channelTitle":"B","categoryId":"10","publishedAt":"2020-08-11T19:20:14Z","tags":["x"],"viewCount":20,"likeCount":2,"commentCount":3}

{"region":"US","trendingDate":"2020-08-13","rank":1,"id":"ccccccccccA","title":"first","channelId":"UCb","channelTitle":"B","categoryId":"24","publishedAt":"2020-08-11T19:20:14Z","viewCount":30,"likeCount":3,"commentCount":0,"source":"x"}
{"region":"GB","trendingDate":"2020-08-12","rank":1,"id":"bbbbbbbbbbA","title":"second","channelId":"UCb","channelTitle":"B","categoryId":"10","publishedAt":"2020-08-11T19:20:14Z","tags":["x"],"viewCount":10,"likeCount":1,"commentCount":3}
`

func zipped(text string) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return buf.Bytes()
}

func TestLoadKeepsTheNewestDayInOrderOfRank(t *testing.T) {
	file := filepath.Join(t.TempDir(), "de.ndjson.gz")
	if err := os.WriteFile(file, zipped(strings.ReplaceAll(lines, `"US"`, `"DE"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, err := youtubetest.Load(strings.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	gz, err := youtubetest.Load(bytes.NewReader(zipped(lines)))
	if err != nil || !reflect.DeepEqual(gz, plain) {
		t.Errorf("gzip and plain differ: %v", err)
	}
	files, err := youtubetest.LoadFile(file, file)
	if err != nil || !slices.Equal(files.Regions(), []string{"DE", "GB"}) {
		t.Errorf("%v %v", err, files.Regions())
	}
	chart := plain.Chart("US")
	if len(chart) != 2 || chart[0].ID != "ccccccccccA" || chart[1].Views != 20 || *chart[0].Comments != 0 ||
		len(plain.Chart("FR")) != 0 {
		t.Fatalf("the newest day in order of rank: %+v", chart)
	}
	if gb := plain.Chart("GB"); len(gb) != 1 || gb[0].Views != 20 {
		t.Errorf("numbers of the newest line: %+v", gb)
	}
	_, svc, _ := start(t, &youtubetest.Options{Data: plain})
	old, err := svc.Videos.List([]string{"snippet", "statistics"}).Id("-aaaaaaaaaA").Do()
	if err != nil || len(old.Items) != 1 || old.Items[0].Statistics.ViewCount != 1 {
		t.Errorf("a video of an older day: %v %+v", err, old)
	}
	found, err := svc.Search.List([]string{"snippet"}).Q("gone").Do()
	if err != nil || len(found.Items) != 1 || found.Items[0].Snippet.Title != "old &amp; &quot;gone&quot;" {
		t.Errorf("search for it: %v", err)
	}
}

func TestLoadNamesTheBadLine(t *testing.T) {
	broken := strings.Replace(lines, `"rank":2,`, `"rank":2`, 1)
	for _, c := range []struct {
		text, want string
		line       int
	}{
		{broken, "load charts: line 2: invalid character", 2},
		{strings.Replace(lines, `"rank":2`, `"rank":0`, 1),
			"line 2: rank is 0, but ranks begin at 1; correct or remove the line", 2},
		{strings.Replace(lines, `"id":"ccccccccccA"`, `"x":1`, 1), "line 4: id is missing", 4},
		{strings.Replace(lines, `2020-08-13","rank":1`, `13.08.2020","rank":1`, 1),
			`line 4: trendingDate "13.08.2020" is not a date`, 4},
		{strings.Replace(lines, `"publishedAt":"2020-08-10T19:20:14Z"`, `"publishedAt":"monday"`, 1), "line 1: ", 1},
		{lines + strings.Repeat("x", 5<<20), "line 6: ", 6},
		{"", "no data", 0},
	} {
		for _, text := range [][]byte{[]byte(c.text), zipped(c.text)} {
			data, err := youtubetest.Load(bytes.NewReader(text))
			bad, _ := errors.AsType[*youtubetest.LineError](err)
			if err == nil || data != nil || !strings.Contains(err.Error(), c.want) || bad != nil &&
				bad.Line != c.line || bad == nil && c.line != 0 {
				t.Errorf("got %v, want %q", err, c.want)
			}
		}
	}
	if _, err := youtubetest.Load(bytes.NewReader(zipped(lines)[:60])); err == nil {
		t.Error("half a gzip file was taken")
	}
	if _, err := youtubetest.LoadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
}

// Google's client fetches complete recorded charts, if this machine has them.
func TestGooglesClientFetchesRecordedCharts(t *testing.T) {
	files := []string{dataFile("trending_sample.ndjson.gz"), dataFile("trending_AU_derived.ndjson.gz")}
	data, err := youtubetest.LoadFile(files...)
	if errors.Is(err, os.ErrNotExist) {
		t.Logf("no recorded charts here (%v): made-up ones only", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	upstream, svc, _ := start(t, &youtubetest.Options{Data: data})
	pages := 0
	for _, region := range data.Regions() {
		want, n := data.Chart(region), 0
		err := svc.Videos.List([]string{"snippet", "statistics", "contentDetails",
			"status"}).Chart("mostPopular").RegionCode(region).MaxResults(50).
			Pages(t.Context(), func(page *youtube.VideoListResponse) error {
				for _, v := range page.Items {
					compare(t, v, want[n])
					n++
				}
				pages++
				return nil
			})
		if err != nil || n != len(want) {
			t.Errorf("%s: %d of %d, %v", region, n, len(want), err)
		}
		t.Logf("%s: %d videos", region, n)
	}
	if upstream.Total() != int64(pages) || len(data.Regions()) != 8 {
		t.Errorf("%d pages cost %d in %v", pages, upstream.Total(), data.Regions())
	}
}
