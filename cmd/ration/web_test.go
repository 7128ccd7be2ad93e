package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// download returns a document, and its status.
func download(t *testing.T, url string) (text string, status int) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body), resp.StatusCode
}

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// TestServeShowsThePage: the page of serve has the figures of status --json,
// its stream does not keep serve from its end, and --no-page leaves it out.
func TestServeShowsThePage(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 4}}]", "US")
	d := s.serve(t, nil)
	d.says(`complete`)
	url := listening.FindString(d.text())
	status, _ := download(t, url+"/v1/status")
	var said struct {
		Budgets []struct {
			Name            string
			Used, Remaining json.Number
		}
	}
	if err := json.Unmarshal([]byte(status), &said); err != nil {
		t.Fatal(err)
	}
	page, _ := download(t, url+"/")
	for _, b := range said.Budgets {
		for is, value := range map[string]json.Number{"used": b.Used, "remaining": b.Remaining} {
			if !regexp.MustCompile(`(?s)data-budget="` + b.Name + `".*?data-is="` + is + `"><data value="` +
				value.String() + `">`).MatchString(page) {
				t.Errorf("%s of %s is not %s in\n%s", is, b.Name, value, page)
			}
		}
	}
	if !regexp.MustCompile(`(?s)id="passes".*US.*complete`).MatchString(page) {
		t.Errorf("the pass is not in\n%s", page)
	}
	version := regexp.MustCompile(`data-version="([^"]+)"`).FindStringSubmatch(page)
	stream, err := http.Get(url + "/page/events?v=" + version[1])
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	d.ends(syscall.SIGTERM)

	d = s.serve(t, nil, "--no-page", "--json", "-v")
	d.says(`(?m)^\{"time":"20[^"]*Z","level":"INFO","msg":"listening","url":"http`)
	d.says(`"level":"DEBUG","msg":"pass","region":"US",.*"outcome":"skipped"`)
	if _, code := download(t, listening.FindString(d.text())+"/"); code != http.StatusNotFound {
		t.Errorf("with --no-page: %d", code)
	}
	d.ends(syscall.SIGTERM)
}

// TestStatusShowsThePage: status --web serves the page until it is interrupted.
func TestStatusShowsThePage(t *testing.T) {
	s := newStand(t, &youtubetest.Options{}, plentyOfUnits, "[{trending: {pages: 4}}]", "US")
	if code, _, said := s.run(t, nil, "spend", "videos.list"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, said)
	}
	d := s.start(t, nil, "status", "--web", "--no-open")
	d.says(`the page is at http://`)
	page, code := download(t, listening.FindString(d.text())+"/")
	if code != http.StatusOK || !strings.Contains(page, `data-is="used"><data value="1">`) {
		t.Errorf("%d: %s", code, page)
	}
	d.ends(syscall.SIGINT)
	for _, args := range [][]string{{"status", "--web", "--json"}, {"status", "--web", "--at", "2026-11-20T00:00:00Z"},
		{"status", "--no-open"}} {
		if code, _, _ := s.run(t, nil, args...); code != exitUsage {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}
