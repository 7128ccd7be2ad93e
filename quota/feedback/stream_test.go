package feedback_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// TestTheCostAtTheEndOfAStreamIsCharged: the cost is charged when the caller
// has read the stream, which reads the same; long streams and documents are
// read in their last 64 KiB.
func TestTheCostAtTheEndOfAStreamIsCharged(t *testing.T) {
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"a}\"}}],\"usage\":null}\n\n"
	usage := `data: {"choices":[],"usage":{"prompt_tokens":4000,"completion_tokens":500,"total_tokens":4500}}` +
		"\n\ndata: [DONE]\n\n"
	start := "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":30,\"output_tokens\":1}}}\n\n"
	delta := "event: message_delta\ndata: {\"usage\":{\"output_tokens\":20}}\n\n"
	for name, c := range map[string]struct {
		dialect, kind, text string
		want                quota.Units
	}{
		"events":      {"openai", "text/event-stream", event + usage, 4500},
		"many events": {"openai", "text/event-stream", strings.Repeat(event, 5000) + usage, 4500},
		"no usage":    {"openai", "text/event-stream", event, 100},
		"cut short":   {"openai", "text/event-stream", event + usage[:20], 100},
		"lines": {"openai", "application/x-ndjson",
			"{\"usage\":{\"total_tokens\":7}}\n{\"usage\":{\"total_tokens\":44}}\n", 44},
		"a list": {"openai", "application/json",
			"[{\"usage\":{\"total_tokens\":7}}\n,\n{\"usage\":{\"total_tokens\":45}}]", 45},
		"a long list": {"openai", "application/json",
			"[{\"usage\":{\"total_tokens\":7}}\n,\n" + strings.Repeat(" ", 70_000) +
				"{\"usage\":{\"total_tokens\":45}}]", 45},
		"input first, output last": {"anthropic", "text/event-stream", start + strings.Repeat(event, 3000) + delta, 50},
		"a document that is too long": {"openai", "application/json",
			`{"choices":[{"text":"` + strings.Repeat("x", 200_000) + `"}],"usage":{"total_tokens":77},"x":1}`, 77},
		"a document that is not": {"openai", "application/json",
			`{"choices":[{"text":"x"}],"usage":{"total_tokens":78}}`, 78},
		"usage within another's words": {"openai", "application/json",
			`{"choices":[{"text":"` + strings.Repeat("x", 200_000) +
				`"}],"more":{"usage":{"total_tokens":9000},"a":{"b":{}}}}`,
			100},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				io.WriteString(w, c.text)
			}))
			defer server.Close()
			budgets := []quota.Budget{hour("all", 100_000)}
			read := reader(t, c.dialect, feedback.Options{Budgets: budgets})
			client := clientOf(t, budgets, &quota.Transport{Feedback: read})
			resp, err := client.Post(server.URL, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(iotest.OneByteReader(resp.Body))
			if err != nil || string(text) != c.text {
				t.Errorf("%d bytes, %v; want the %d that were sent", len(text), err, len(c.text))
			}
			resp.Body.Close()
			if got := used(t, client)[0]; got != c.want {
				t.Errorf("%d units are charged; want %d", got, c.want)
			}
		})
	}
}

// BenchmarkHeaders reads an answer with 20 headers, of which five are about a
// limit, beside what parsing its Date alone takes on this machine. The body is
// not read.
func BenchmarkHeaders(b *testing.B) {
	budgets := []quota.Budget{hour("hour", 5000), minutely}
	header := http.Header{
		"Date": {date}, "Content-Type": {"text/html; charset=utf-8"}, "X-Ratelimit-Limit": {"5000"},
		"X-Ratelimit-Remaining": {"4999"}, "X-Ratelimit-Used": {"1"},
		"X-Ratelimit-Reset": {epoch(time.Hour)}, "X-Ratelimit-Resource": {"core"},
	}
	for i := range 13 {
		header[fmt.Sprintf("X-Other-%d", i)] = []string{"value"}
	}
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			http.ParseTime(date)
		}
	})
	for _, dialect := range []string{"generic", "github", "okta"} {
		read := reader(b, dialect, feedback.Options{Budgets: budgets})
		resp := &http.Response{StatusCode: 200, Header: header, Body: http.NoBody}
		b.Run(dialect, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(call, resp)
			}
		})
	}
}
