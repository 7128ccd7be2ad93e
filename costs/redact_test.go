package costs_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestRedactHidesKeysAfterASemicolon: an error names the refused request
// without anything that may be a key, in any position and spelling.
func TestRedactHidesKeysAfterASemicolon(t *testing.T) {
	table := load(t)
	const key = "AIzaSyD-s3cret_s3cret_s3cret_s3cret_s3c"
	for _, address := range []string{
		"https://www.googleapis.com/youtube/v3/search;key=", "https://www.googleapis.com/youtube/v3/search;KEY=",
		"https://www.googleapis.com/youtube/v3/search;k%65y=",
		"https://www.googleapis.com/youtube/v3/search%3Bkey=", "https://www.googleapis.com/youtube/v3/search%3bkey%3d",
		"https://www.googleapis.com/youtube/v3/search%253Fkey=",
		"https://www.googleapis.com/youtube/v3/search&key=", "https://www.googleapis.com/youtube/v3/nothing#",
		"https://www.googleapis.com/youtube/v3/nothing?",
		"https://www.googleapis.com/youtube/v3/", "www.googleapis.com/youtube/v3/search?key=",
		"https://www.googleapis.com:x/?key=", "https:", "://", "%zz",
	} {
		for _, secret := range []string{key, "xoxb-17653285672-s3cret"} {
			_, err := table.Quote("GET", address+secret)
			if err == nil || strings.Contains(err.Error(), "cret") {
				t.Errorf("%s: %v", address+secret, err)
			}
			if _, err := table.Quote(address+secret, "https://www.googleapis.com/youtube/v3/search"); err == nil ||
				strings.Contains(err.Error(), "cret") {
				t.Errorf("as the verb, %s: %v", address+secret, err)
			}
			if _, err := table.Call("", address+secret); err == nil || strings.Contains(err.Error(), "cret") {
				t.Errorf("as the method, %s: %v", address+secret, err)
			}
		}
	}
	for _, at := range []string{"@", "%40"} {
		if _, err := table.Quote("GET", "https://www.googleapis.com/youtube/v3/s3cret"+at+"x"); err == nil ||
			strings.Contains(err.Error(), "cret") || !strings.Contains(err.Error(), "/youtube/v3/") {
			t.Errorf("before %s: %v", at, err)
		}
	}
	u := &url.URL{Scheme: "https", Host: "www.googleapis.com", User: url.User("s3cret"), Path: "/youtube/v3/search"}
	if _, err := table.Price(&http.Request{Method: "GET", URL: u}); err == nil ||
		strings.Contains(err.Error(), "cret") {
		t.Errorf("as the user: %v", err)
	}
	for _, plain := range []string{"/youtube/v3/videoAbuseReportReasonsX", "/youtube/v3/liveChat/messages:nothing"} {
		if _, err := table.Quote("GET", "https://www.googleapis.com"+plain); err == nil ||
			!strings.Contains(err.Error(), plain) {
			t.Errorf("%v; want %s named", err, plain)
		}
	}
}
