package costs_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"pgregory.net/rapid"
)

// slashed has a cheap route, which encoded slashes may match, beside two
// expensive ones.
const slashed = `version: 1
account: a
hosts: [api.up.example]
routes:
  "/gp/{id}": cheap
  "/admin": dear
  "/gp/{id}/export": dear
  "/rpc/{method}/{id}": "{method}"
costs: {cheap: 1, dear: 100, list: 1}
budgets: [{name: all, limit: 1000, window: 1h}]
`

// TestAnEncodedSlashMatchesIfNoReadingLeadsElsewhere: a segment with an encoded
// slash matches {id} only if no reading of the path leads to another method.
func TestAnEncodedSlashMatchesIfNoReadingLeadsElsewhere(t *testing.T) {
	table := parse(t, slashed)
	for path, want := range map[string]string{
		"/gp/x": "cheap", "/gp/group%2Fproject": "cheap", "/gp/group%2fproject": "cheap", "/gp/a%2Fb%2Fc": "cheap",
		"/gp/a%2F":                             "cheap",
		"/gp/https%3A%2F%2Fwww.example.com%2F": "cheap", "/gp/%C3%BC%2F%E4%BE%8B": "cheap", "/gp/a%2Fb.c": "cheap",
		"/gp/a%20b%2Fc": "cheap", "/gp/50%25%2Fx": "cheap",
		"/gp/%2Fexport": "cheap", // /gp/export is the id "export"
		"/gp/a%2Fb;v=1": "cheap", "/gp/a%2Fb%3Fc": "cheap", "/gp/a%2Fexports": "cheap",
		"/gp/a%2Fb/export": "dear", "/rpc/list/a%2Fb": "list",

		// As reported.
		"/gp/%2e%2e%2Fadmin": "", "/gp/.%2E%2Fadmin": "", "/gp/x%2F%65xport": "", "/gp/x%2F%2e%2Fexport": "",
		"/gp/x%2Fexport%3Ba": "", "/gp/x%2Fexport%00": "",
		"/gp/..%2Fadmin": "", "/gp/x%2Fexport": "", "/gp/x%252Fexport": "", "/gp/x%252Fy": "",

		// Other letters, separators and ends.
		"/gp/x%2fexport": "", "/gp/x%2FEXPORT": "", "/gp/x%2Fe%58port": "", "/gp/x%2F%65%78%70%6f%72%74": "",
		"/gp/x%2Fexport%2F": "", "/gp/x%2F%2Fexport": "",
		"/gp/x%2F%2F%65xport%2F%2F": "", "/gp/x%2F%5Cexport": "", "/gp/x%5Cexport": "", "/gp/x%5C%2Fexport": "",
		"/gp/y%2F..%5Cadmin": "", "/gp/..%5C%2Fadmin": "",
		"/gp/a%2Fb/": "", "/gp//a%2Fb": "", "//gp/a%2Fb": "", "/gp%2F": "", "/gp%2Fx": "", "/%2Fadmin": "",
		"/admin%2F": "", "/gp/x%2Fexport/": "",

		// Parameters, queries, blanks and dots.
		"/gp/x%2Fexport;a": "", "/gp/x;a%2Fexport": "", "/gp/x%3Ba%2Fexport": "", "/gp/x%2Fexport%3Ba%2Fb": "",
		"/gp/x%2F;a%2Fexport": "", "/gp/x%2Fexport%3F": "",
		"/gp/x%2Fexport%23a": "", "/gp/x%2Fexport%20": "", "/gp/x%2Fexport.": "", "/gp/x%2F...%2Fexport": "",
		"/gp/x%2F.%3Ba%2Fexport": "", "/gp/..;%2Fadmin": "", "/gp/a%2F..": "", "/gp/a%2F%2e": "",

		// Control bytes and malformed UTF-8.
		"/gp/x%2Fy%00": "", "/gp/%00%2Fy": "", "/gp/x%2Fy%0A": "", "/gp/x%2Fexport%0D%0Aa": "", "/gp/x%2Fy%7F": "",
		"/gp/x%2Fy%C2%85": "", "/gp/x%2Fex%FFport": "",
		"/gp/x%2F%C0%AE%C0%AE%2Fexport": "", "/gp/x%C0%AFexport": "", "/gp/x%E0%80%AFexport": "",
		"/gp/x%F0%80%80%AFexport": "", "/gp/x%25C0%25AFexport": "", "/gp/x%2F%C1%A5xport": "",

		// Encoded more than once.
		"/gp/x%2F%2565xport": "", "/gp/x%2Fy%252Fz": "", "/gp/%252e%252e%2Fadmin": "", "/gp/%252e%252e%252Fadmin": "",
		"/gp/x%25252Fy": "", "/gp/%25zz%252Fexport": "",
		"/gp/%25zz%2F%2565xport": "", "/gp/x%2Fy%2500": "", "/gp/x%2Fexport%253Ba": "",

		// The segment that names the method.
		"/rpc/list/%2e%2e%2F%2e%2e%2Fadmin": "", "/rpc/list%2Fa/b": "", "/rpc/a%2Fb": "",
	} {
		got, err := table.Quote("GET", "https://api.up.example"+path)
		if got.Call.Method != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", path, got.Call.Method, err, want)
		}
	}
}

// TestNoReadingOfAnEncodedSlashCostsMore: another reading of the path may lead
// to the same method or to one that costs the same, and never to one that costs
// more: not by the cost of unlisted methods, and not by other case.
func TestNoReadingOfAnEncodedSlashCostsMore(t *testing.T) {
	for routes, want := range map[string]string{
		`"/p/{id}": a, "/p/{id...}": a`:                       "a",
		`"/p/{id}": a, "/p/{id}/y": b`:                        "a",
		`"/p/{id}": a, "/p/{id...}": b`:                       "a",
		`"/p/{id}": b, "/p/{id}/y": a`:                        "",
		`"/p/{id}": b, "/p/{id...}": a`:                       "",
		`"/p/{id}": a, "/p/{id}/y": unlisted`:                 "",
		`"/p/{id}": a, "/p/{id}/Y": a, "/p/{id}/y": unlisted`: "",
		`"/p/{id}": a, "/p/{id}/Y": unlisted`:                 "",
		`"/p/{id}": a, "POST /p/{id}/y": unlisted`:            "a",
	} {
		table := parse(t, "version: 1\naccount: a\nhosts: [h.example]\nunlisted: 100\nroutes: {"+routes+
			"}\ncosts: {a: 2, b: 1}\nbudgets: [{name: all, limit: 1000, window: 1h}]\n")
		if got, err := table.Quote("GET", "https://h.example/p/x%2Fy"); got.Call.Method != want ||
			(err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", routes, got.Call.Method, err, want)
		}
	}
}

// TestAPathOfTooManyReadingsIsRefused: a path that can be read in a great many
// ways is refused rather than read in all of them.
func TestAPathOfTooManyReadingsIsRefused(t *testing.T) {
	table := parse(t, slashed)
	for _, tail := range []string{"%" + strings.Repeat("25", 1000) + "41", strings.Repeat("%3B%2525%5C%20", 500)} {
		if got, err := table.Quote("GET", "https://api.up.example/gp/x%2Fy"+tail); err == nil {
			t.Errorf("%.30s: %+v", tail, got.Call)
		}
	}
}

// dearPath matches what the upstream of slashed takes for an expensive call.
var dearPath = regexp.MustCompile(`(?i)^/(admin|gp/[^/]+/export)$`)

// dearReading returns a reading of a path that leads to an expensive call, or
// "". It is written apart from the code under test: each bit of choice is one
// thing that a server does, after it decoded the path once.
func dearReading(raw string) string {
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return ""
	}
	for choice := range 32 {
		reading := decoded
		if choice&1 != 0 {
			reading, _, _ = strings.Cut(reading, "\x00")
		}
		if choice&2 != 0 {
			reading = strings.ReplaceAll(reading, `\`, "/")
		}
		if choice&4 != 0 {
			reading = regexp.MustCompile(`;[^/]*`).ReplaceAllString(reading, "")
		}
		if choice&8 != 0 {
			reading, _, _ = strings.Cut(reading, "?")
		}
		if choice&16 != 0 {
			reading = path.Clean(reading)
		}
		if dearPath.MatchString(reading) {
			return reading
		}
	}
	return ""
}

func checkCheap(t interface {
	Helper()
	Fatalf(string, ...any)
}, table *costs.Table, raw string) {
	t.Helper()
	u, err := url.Parse("https://api.up.example" + raw)
	if err != nil || u.Host != "api.up.example" {
		return
	}
	call, err := table.Price(&http.Request{Method: "GET", URL: u})
	if err != nil || call.Units >= 100 || !strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") {
		return
	}
	if reading := dearReading(u.EscapedPath()); reading != "" {
		t.Fatalf("%s costs %d, but can be read as %q", u, call.Units, reading)
	}
}

// However a path with an encoded slash is put together, it is cheap only if it
// is cheap under each reading.
func TestCheapEncodedSlashIsCheapInEachReading(t *testing.T) {
	table := parse(t, slashed)
	parts := []string{"/gp/", "/rpc/list/", "x", "export", "admin", "gp", "%2F", "%2f", "/", ".", "..", ";a", `\`,
		"\x00", "?", " ", "%", "é", "\xc0\xaf"}
	rapid.Check(t, func(t *rapid.T) {
		var raw strings.Builder
		raw.WriteString(rapid.SampledFrom([]string{"/gp/", "/gp/x%2F", "/gp/..%2F", "/rpc/list/", "/"}).Draw(t,
			"start"))
		for _, part := range rapid.SliceOfN(rapid.SampledFrom(parts), 1, 7).Draw(t, "parts") {
			for i := range len(part) {
				isPlain := strings.IndexByte("/;.%", part[i]) >= 0 || part[i] > ' ' && part[i] < 0x7f &&
					part[i] != '?' && part[i] != '\\'
				if len(part) > 1 && part[0] == '%' || isPlain && part != "%" &&
					rapid.IntRange(0, 3).Draw(t, "encode") > 0 {
					raw.WriteByte(part[i])
				} else {
					fmt.Fprintf(&raw, "%%%02X", part[i])
				}
			}
		}
		checkCheap(t, table, raw.String())
	})
}

func FuzzEncodedSlash(f *testing.F) {
	table := parse(f, slashed)
	for _, seed := range []string{"/gp/group%2Fproject", "/gp/%2e%2e%2Fadmin", "/gp/x%2F%65xport", "/gp/x%2Fexport%3Ba",
		"/gp/x%2Fexport%00", "/gp/x%2F%5Cexport", "/gp/x%2F%C0%AFexport"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkCheap(t, table, raw) })
}
