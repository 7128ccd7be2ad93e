package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/servers"
)

// TestTwoConfigurationsShareTheStricterLimit: processes with the limits 5 and
// 50 for one budget sent 50 together. The stricter limit holds for all of them,
// and each place where an operator looks says so.
func TestTwoConfigurationsShareTheStricterLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes one after the other, 2 seconds")
	}
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) { twoConfigurations(t, "sqlite:"+filepath.Join(t.TempDir(), "shared.db")) })
	t.Run("redis", func(t *testing.T) { twoConfigurations(t, servers.StartRedis(t).URL()) })
}

func twoConfigurations(t *testing.T, ledger string) {
	s := newStand(t, nil, "{name: all, limit: 5, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		eight...)
	loose := filepath.Join(s.dir, "loose")
	if err := os.Mkdir(loose, 0o700); err != nil {
		t.Fatal(err)
	}
	s.write(t, "loose/regions.yaml", mustRead(t, filepath.Join(s.dir, "regions.yaml")))
	s.write(t, "loose/costs.yaml", strings.Replace(mustRead(t, filepath.Join(s.dir, "costs.yaml")), "limit: 5,",
		"limit: 50,", 1))
	shared := "RATION_LEDGER=" + ledger
	useLoose := []string{"RATION_CONFIG=" + loose, shared}
	// 1 is left: each region needs two pages at least
	if code, _, text := s.run(t, []string{shared}, "spend", "videos.list", "--units", "4"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	var wg sync.WaitGroup
	for i, region := range eight {
		wg.Go(func() {
			cmd := s.command("run", region)
			cmd.Env = append(cmd.Env, shared)
			if i%2 == 1 {
				cmd.Env = append(cmd.Env, useLoose...)
			}
			if out, err := cmd.CombinedOutput(); exitCode(err) != exitStopped {
				t.Errorf("%s: %v: %s; want it to be stopped", region, err, out)
			} else if says := strings.Contains(string(out),
				"another configuration's limit of 5 holds instead of 50, until 20"); says != (i%2 == 1) {
				t.Errorf("%s: %s", region, out)
			}
		})
	}
	wg.Wait()
	if total := s.upstream.Total(); total != 1 {
		t.Fatalf("the upstream counted %d units; want 1, beside the 4 spent by hand", total)
	}
	code, out, _ := s.run(t, useLoose, "status", "--json")
	var status inspect.Report
	if err := json.Unmarshal([]byte(out), &status); err != nil || code != exitDone {
		t.Fatal(code, err, out)
	}
	if b := status.Budgets[0]; b.Limit != 5 || b.ConfiguredLimit != 50 || b.LimitUntil == nil || b.Remaining != 0 {
		t.Errorf("%s; want both limits", out)
	}
	s.showsBothLimits(t, useLoose)
	if code, _, text := s.run(t, useLoose, "spend", "videos.list"); code != exitStopped {
		t.Fatalf("exit code %d: %s", code, text)
	}
	_, out, _ = s.run(t, useLoose, "why")
	if !strings.Contains(strings.Join(strings.Fields(out), " "),
		"a limit of 6 units or more for all in every configuration: that of 5 is another's, and if") {
		t.Errorf("why: %s; want the other configuration", out)
	}
	if code, _, text := s.run(t, useLoose, "ledger", "accept"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	if code, _, text := s.run(t, useLoose, "run", "US"); code != exitDone || s.upstream.Total() <= 1 {
		t.Errorf("exit code %d after %d units: %s; want the run to go on", code, s.upstream.Total(), text)
	}
}

// showsBothLimits checks that status and doctor name both limits, and how to
// find the file with the other.
func (s *stand) showsBothLimits(t *testing.T, env []string) {
	t.Helper()
	for _, command := range []string{"status", "doctor"} {
		_, out, text := s.run(t, env, command)
		for _, says := range []string{
			"the limit of all is 50 here, and another configuration has asked for 5 within a day",
			"look for that limit in the costs.yaml of each host, user and container"} {
			if !strings.Contains(strings.Join(strings.Fields(out+text), " "), says) {
				t.Errorf("%s: %s%s; want both limits, and how to find the other", command, out, text)
			}
		}
	}
}
