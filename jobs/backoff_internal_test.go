package jobs

import (
	"testing"
	"time"
)

// TestAFailingMethodHasTheStatedAttemptsADay: the most that docs/running.md
// states, computed from the constants: one step fails by itself until any of
// its attempts, and then every step of its method, any number of them in
// flight.
func TestAFailingMethodHasTheStatedAttemptsADay(t *testing.T) {
	const stated = 16
	const day = 24 * time.Hour
	most := 0
	alone := 1
	for at := time.Duration(0); at < day; at += backoff(alone, stepFailures) {
		for inFlight := 0; inFlight <= DefaultParallel; inFlight++ {
			failures, attempts := stepFailures+inFlight, alone+inFlight
			for retry := at + backoff(failures, methodFailures); inFlight > 0 &&
				retry < day; retry += backoff(failures, methodFailures) {
				failures++
				attempts++
			}
			most = max(most, attempts)
		}
		alone++
	}
	if most != stated {
		t.Errorf("a failing method is tried %d times in 24 hours; docs/running.md states %d", most, stated)
	}
}

func TestBackoffDoublesUpToItsMost(t *testing.T) {
	for failures, want := range []time.Duration{0, 0, 5, 10, 20, 40, 80, 160, 320, 360, 360} {
		if got := backoff(failures, 2); got != want*time.Minute {
			t.Errorf("after %d failures: %s; want %s", failures, got, want*time.Minute)
		}
	}
	if got := backoff(1<<30, 2); got != longestBackoff {
		t.Errorf("after a billion failures: %s; want %s", got, longestBackoff)
	}
}
