package youtubetest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// controlled is a server with its control beside it, as ration fake
// serves them.
type controlled struct {
	*testing.T
	url string
}

func startControlled(t *testing.T, o *youtubetest.Options) *controlled {
	upstream := youtubetest.New(o)
	mux := http.NewServeMux()
	mux.Handle("/", upstream)
	mux.Handle("/fake/", http.StripPrefix("/fake", upstream.Control()))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &controlled{t, server.URL}
}

// do sends a request and returns the status and the body.
func (c *controlled) do(method, path, body string) (int, string) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const chart = "/youtube/v3/videos?part=id&chart=mostPopular&key=k"

// TestOtherLanguagesAskTheMeter: a test that is not written in Go reads
// what arrived and sets limits and faults over HTTP.
func TestOtherLanguagesAskTheMeter(t *testing.T) {
	c := startControlled(t, &youtubetest.Options{Exact: true})
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", chart, "", 200},
		{"POST", "/fake/faults", `{"status":503,"method":"videos.list"}`, 204},
		{"GET", chart, "", 503},
		{"GET", chart, "", 200},
		{"POST", "/fake/faults", `[{"reason":"quotaExceeded","times":-1},{"status":502,"region":"XX"}]`, 204},
		{"GET", chart, "", 403},
		{"GET", chart, "", 403},
		{"DELETE", "/fake/faults", "", 204},
		{"GET", chart, "", 200},
		{"POST", "/fake/faults", `{"status":429,"header":{"retry-after":"3"},"free":true}`, 204},
		{"GET", chart, "", 429},
		{"POST", "/fake/faults", `{"status":429,"header":{"Retry-After":["3"]},"free":true}`, 204},
		{"GET", chart, "", 429},
		{"POST", "/fake/spend", `{"default":100}`, 204},
		{"POST", "/fake/limits", `{"default":107}`, 204},
		{"GET", chart, "", 200}, // the faults were charged too
		{"GET", chart, "", 403},
	} {
		if status, body := c.do(step.method, step.path, step.body); status != step.status {
			t.Fatalf("%+v: %d %s", step, status, body)
		}
	}
	_, text := c.do("GET", "/fake/meter", "")
	var meter struct {
		Used   map[string]int64
		Total  int64
		Resets time.Time
	}
	if err := json.Unmarshal([]byte(text), &meter); err != nil || meter.Used["default"] != 107 ||
		!meter.Resets.After(time.Now()) {
		t.Errorf("%s (%v); want all that was used", text, err)
	}
	_, text = c.do("GET", "/fake/arrivals", "")
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != 10 ||
		!strings.Contains(lines[1], `"fault":true`) || !strings.Contains(lines[1], `"status":503`) {
		t.Errorf("%s; want the ten calls", text)
	}
}

// TestControlRefusesMisspelledFaults: a fault that is misspelled would never
// strike.
func TestControlRefusesMisspelledFaults(t *testing.T) {
	c := startControlled(t, nil)
	for _, bad := range [][2]string{
		{"/fake/faults", `{"statsu":503}`}, {"/fake/faults", `{"status":99}`}, {"/fake/faults", `{"delivery":"late"}`},
		{"/fake/faults", `{"delay":"2"}`},
		{"/fake/faults", `[{"every":-1}]`}, {"/fake/faults", `{`}, {"/fake/limits", `{"search_list":1}`},
		{"/fake/limits", `{"default":-1}`}, {"/fake/spend", `[]`},
		{"/fake/faults", `{"status":"503"}`}, {"/fake/faults", `{"header":{"Retry-After":3}}`},
	} {
		if status, body := c.do("POST", bad[0], bad[1]); status != 400 || strings.Contains(body, "Go ") {
			t.Errorf("%s: %d %s; want 400, and no words of Go", bad, status, body)
		}
	}
	resp, err := http.Post(c.url+"/fake/limits", "text/plain", strings.NewReader(`{"default":0}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 {
		t.Errorf("a body of any page's form: %s; want 400", resp.Status)
	}
	for _, bad := range []string{"", "status", "status=x", "free=perhaps", "delay=2"} {
		if f, err := youtubetest.ParseFault(bad); err == nil {
			t.Errorf("%q: %+v; want an error", bad, f)
		}
	}
	if _, err := youtubetest.ParseFault("colour=red"); err == nil ||
		err.Error() != `unknown key "colour": write method, region, skip, every, times, delay, status, reason, `+
			`delivery or free` {
		t.Errorf("%v; want the keys", err)
	}
	f,
		err := youtubetest.ParseFault("method=search.list, " +
		"every=2,times=-1,delay=2s,delivery=cut_short,free=true,status=429")
	if err != nil || f.Method != "search.list" || f.Every != 2 || f.Times != -1 || f.Delay != 2*time.Second ||
		f.Delivery != youtubetest.CutShort || !f.Free || f.Status != 429 {
		t.Errorf("%+v, %v", f, err)
	}
}
