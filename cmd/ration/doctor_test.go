package main

import (
	"strings"
	"testing"
)

// TestDoctorNamesTheEndpoint: calls that go to another server need no key, and
// a forgotten RATION_ENDPOINT is seen.
func TestDoctorNamesTheEndpoint(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 120, window: 24h}", "[trending]", "GB")
	cmd := s.command("doctor")
	cmd.Env = append(cmd.Env, "YOUTUBE_API_KEY=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "calls to "+s.url+" (") || strings.Contains(string(out), "no API key") {
		t.Errorf("%v, it says %s; want a note on %s and no word of a key", err, out, s.url)
	}
}
