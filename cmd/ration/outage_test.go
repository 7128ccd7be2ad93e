package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestDeadLedgerInTheMiddleOfARun kills the Redis of a run, and of a serve, whose
// regions are fetched one after the other, and starts it again when calls have
// gone out without it: both say it once each, off a terminal and with -q.
func TestDeadLedgerInTheMiddleOfARun(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds for a ledger that is down")
	}
	t.Parallel()
	for _, command := range []string{"run", "serve"} {
		t.Run(command, func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 200 * time.Millisecond}, plentyOfUnits, "[{trending: {pages: 4}}]", eight...)
			s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+"when_ledger_down: {default: {allow: 100}}\n")
			url, restart := redisProcess(t, "--appendonly", "yes")
			args := []string{command, "-q", "--parallel", "1", "--ledger", url}
			if command == "serve" {
				args = append(args, "--jitter", "0s")
			}
			d := s.start(t, nil, args...)
			await := func(pages int64) {
				t.Helper()
				for end := time.Now().Add(time.Minute); s.upstream.Total() < pages; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%d pages within a minute:\n%s", s.upstream.Total(), d.text())
					}
				}
			}
			await(2)
			restart(func() {
				d.says("the ledger redis://127.0.0.1:[0-9]+/0 has been down since 20.*; calls go out within the allowance of when_ledger_down")
				await(s.upstream.Total() + 1)
			})
			d.says("the ledger redis://127.0.0.1:[0-9]+/0 is back after .*; [0-9]+ units went out from here without it, and are recorded now")
			if command == "serve" {
				d.ends(syscall.SIGTERM)
			} else {
				<-d.done
				d.Wait()
			}
			if text := d.text(); strings.Count(text, "has been down since") != 1 || strings.Count(text, "is back after") != 1 {
				t.Errorf("it says\n%s", text)
			}
		})
	}
}
