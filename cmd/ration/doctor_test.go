package main

import (
	"strings"
	"testing"
)

// TestDoctorNamesTheEndpoint: calls that go to another server need no key, and
// a forgotten RATION_ENDPOINT is seen.
func TestDoctorNamesTheEndpoint(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 120, window: 24h}", "[trending]", "GB")
	code, out, text := s.run(t, []string{"YOUTUBE_API_KEY="}, "doctor")
	if out += text; code != exitDone || !strings.Contains(out, "calls to "+s.url+" (") ||
		strings.Contains(out, "no API key") {
		t.Errorf("exit code %d, it says %s; want a note on %s and no word of a key", code, out, s.url)
	}
}
