package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/servers"
)

// TestDoctorSaysWhatBecomesOfALookAlikesUnits: a host spells an account in
// another way, and first spends during an outage. The ledger refuses that name
// afterwards, and doctor says what becomes of the units.
func TestDoctorSaysWhatBecomesOfALookAlikesUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 2 seconds for a ledger that is down")
	}
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 100, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		"US")
	redis := servers.StartRedis(t, "--appendonly", "yes")
	ledger := "RATION_LEDGER=" + redis.URL()
	if code, _, text := s.run(t, []string{ledger}, "spend", "videos.list"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	s.write(t, "costs.yaml", strings.Replace(mustRead(t, filepath.Join(s.dir, "costs.yaml")), "account: p\n",
		"account: P\n", 1)+"when_ledger_down: {default: {allow: 5}}\n")
	other := []string{ledger, "RATION_STATE=" + t.TempDir(), "RATION_JOURNAL=" + t.TempDir()}
	redis.Stop()
	if code, _, text := s.run(t, other, "spend", "videos.list", "--units", "3"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	redis.Restart(t)
	if code, _, text := s.run(t, other, "spend", "videos.list"); code != exitConfig ||
		!strings.Contains(text, `write "p"`) {
		t.Errorf("exit code %d: %s; want it refused", code, text)
	}
	code, out, _ := s.run(t, other, "doctor")
	if out = strings.Join(strings.Fields(out), " "); code != exitConfig ||
		!strings.Contains(out,
			"3 units were sent within the allowance while the ledger was down, not yet in the ledger -> correct the "+
				"account's name, and charge them to it") {
		t.Errorf("doctor: %d, %s; want what to do about the units", code, out)
	}
}
