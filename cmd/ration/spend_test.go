package main

import (
	"encoding/json"
	"testing"
)

// TestAFloorDoesNotLowerWhatARefusalSaysIsUsed: what is kept for other regions
// does not lower used, also when nothing remains.
func TestAFloorDoesNotLowerWhatARefusalSaysIsUsed(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 120, window: 24h, floor: {GB: 15}}", "[trending]", "GB")
	for _, c := range []struct {
		args []string
		used int64 // -1: granted
	}{
		{[]string{"--units", "100"}, -1},
		{[]string{"--units", "6"}, 100},
		{[]string{"--units", "5", "--region", "GB"}, -1},
		{[]string{"--units", "5"}, -1},
		{[]string{"--units", "5"}, 110},
	} {
		code, out, text := s.run(t, nil, append([]string{"spend", "videos.list", "--json"}, c.args...)...)
		if c.used < 0 {
			if code != exitDone {
				t.Fatalf("%v: exit code %d: %s", c.args, code, text)
			}
			continue
		}
		var told struct{ Used, Remaining int64 }
		if err := json.Unmarshal([]byte(out), &told); err != nil || told.Used != c.used {
			t.Errorf("%v: %v, it says %s; want %d used", c.args, err, out, c.used)
		}
	}
	if code, _, text := s.run(t, nil, "ledger", "reconcile", "all", "--used", "118"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	_, out, _ := s.run(t, nil, "spend", "videos.list", "--json")
	var told struct{ Used, Remaining int64 }
	if err := json.Unmarshal([]byte(out), &told); err != nil || told.Used != 118 || told.Remaining != 0 {
		t.Errorf("%v, it says %s; want 118 used and 0 remaining", err, out)
	}
}
