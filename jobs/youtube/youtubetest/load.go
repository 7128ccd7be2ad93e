package youtubetest

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// row is a line of a data file: one place in a region's chart of one day.
type row struct {
	Region       string `json:"region"`
	TrendingDate string `json:"trendingDate"`
	Rank         int    `json:"rank"`
	Video
}

// maxLine is the longest line that Load accepts, in bytes.
const maxLine = 4 << 20

// Load reads recorded charts, plain or compressed with gzip. Each line is a
// JSON object with
//
//	region, trendingDate (2006-01-02), rank (from 1), id, title, description,
//	channelId, channelTitle, categoryId, publishedAt (RFC 3339), tags,
//	viewCount, likeCount or null, commentCount or null
//
// Other keys and empty lines are ignored. A region's chart is that of its
// newest day, sorted by rank; the videos of older days are still found by
// search.list, and by videos.list by id. A video has the statistics of its
// newest line. An invalid line is a *LineError, and nothing is loaded.
func Load(r io.Reader) (*Data, error) {
	rows, err := readRows(r)
	if err != nil {
		return nil, fmt.Errorf("load charts: %w", err)
	}
	return fromRows(rows)
}

// LoadFile reads one or more files like Load, into one Data.
func LoadFile(paths ...string) (*Data, error) {
	var all []row
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("load charts: %w", err)
		}
		rows, err := readRows(file)
		_ = file.Close() // was only read
		if err != nil {
			return nil, fmt.Errorf("load charts: %s: %w", path, err)
		}
		all = append(all, rows...)
	}
	return fromRows(all)
}

func readRows(r io.Reader) ([]row, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(unzipped)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	var rows []row
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var one row
		err := json.Unmarshal(lines.Bytes(), &one)
		if err == nil {
			err = one.check()
		}
		if err != nil {
			return nil, &LineError{Line: n, Err: err}
		}
		rows = append(rows, one)
	}
	if err := lines.Err(); err != nil {
		return nil, &LineError{Line: n, Err: err}
	}
	return rows, nil
}

func (r *row) check() error {
	for _, field := range []struct{ name, value string }{
		{"region", r.Region}, {"id", r.ID}, {"title", r.Title}, {"channelId", r.ChannelID},
		{"categoryId", r.CategoryID},
	} {
		if field.value == "" {
			return fmt.Errorf("%s is missing", field.name)
		}
	}
	if _, err := time.Parse(time.DateOnly, r.TrendingDate); err != nil {
		return fmt.Errorf("trendingDate %q is not a date like 2006-01-02", r.TrendingDate)
	}
	if r.Rank < 1 {
		return fmt.Errorf("rank is %d, but ranks begin at 1", r.Rank)
	}
	if r.PublishedAt.IsZero() {
		return errors.New("publishedAt is missing")
	}
	return nil
}

func fromRows(rows []row) (*Data, error) {
	if len(rows) == 0 {
		return nil, errors.New("load charts: no data; name a file that has at least one line")
	}
	var videos []*Video
	newest := map[string]string{} // newest day of each region
	latest := map[string]int{}    // index of the newest row of each video
	for i, r := range rows {
		newest[r.Region] = max(newest[r.Region], r.TrendingDate)
		if j, known := latest[r.ID]; !known || r.TrendingDate > rows[j].TrendingDate {
			latest[r.ID] = i
		}
	}
	chart := map[string][]row{}
	for i, r := range rows {
		if latest[r.ID] == i {
			videos = append(videos, &rows[i].Video)
		}
		if newest[r.Region] == r.TrendingDate {
			chart[r.Region] = append(chart[r.Region], r)
		}
	}
	charts := map[string][]string{}
	for region, rows := range chart {
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Rank, b.Rank) })
		for _, r := range rows {
			charts[region] = append(charts[region], r.ID)
		}
	}
	return newData(videos, charts), nil
}
