package costs_test

import (
	"os"
	"testing"
	_ "time/tzdata"

	"github.com/ration-dev/ration/costs"
)

// The goal is 300 ns without allocations. The requests are what
// google.golang.org/api v0.310.0 sends.
func BenchmarkPrice(b *testing.B) {
	table := load(b)
	for name, raw := range map[string]string{
		"search": "https://youtube.googleapis.com/youtube/v3/search?alt=json&maxResults=50&order=date" +
			"&part=snippet&prettyPrint=false&q=music&type=video",
		"upload": "https://youtube.googleapis.com/upload/youtube/v3/videos?alt=json" +
			"&part=snippet&prettyPrint=false&uploadType=resumable",
		"unguarded": "https://i.ytimg.com/vi/abc/default.jpg",
	} {
		req := get(b, raw)
		if name == "upload" {
			req.Method = "POST"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = table.Price(req)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile(shipped)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := costs.Parse(shipped, data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParsePreset(b *testing.B) {
	b.ReportAllocs()
	data := []byte("version: 1\naccount: a\npreset: youtube/2026-06\n")
	for b.Loop() {
		if _, err := costs.Parse("costs.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}
