//go:build unix

package main

import (
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestFakeYouTubeIsAskedByAnyProgram: a real process serves the API with its
// faults, says what arrived, and ends with a signal.
func TestFakeYouTubeIsAskedByAnyProgram(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	cmd := s.command("fake", "youtube", "--listen", "127.0.0.1:0", "--limit", "3", "--exact", "--key", "k", "--fault",
		"status=503,skip=1")
	d := startCommand(t, cmd)
	d.says(`(?m)^ration: a fake YouTube listens on .+$`)
	url := regexp.MustCompile(`listens on (\S+)`).FindStringSubmatch(d.text())[1]
	for i, want := range []int{200, 503, 200, 403} {
		if status, body := get(t, url+"/youtube/v3/videos?part=id&chart=mostPopular&key=k"); status != want {
			t.Fatalf("call %d: %d %s; want %d", i, status, body, want)
		}
	}
	resp, err := http.Post(url+"/fake/limits", "application/json", strings.NewReader(`{"default":4}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, body := get(t, url+"/fake/meter"); resp.StatusCode != 204 || !strings.Contains(body, `"default":3,`) {
		t.Errorf("%s, %s; want 3 used", resp.Status, body)
	}
	if curl, err := exec.LookPath("curl"); err == nil {
		if out, err := exec.Command(curl, "-sS", "--fail",
			url+"/youtube/v3/videos?part=id&chart=mostPopular&key=k").CombinedOutput(); err != nil {
			t.Errorf("curl: %v %s", err, out)
		}
	}
	d.ends(syscall.SIGTERM)
}
