package redisledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/ration-dev/ration/quota/internal/redistest"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// playURL makes the test binary a process that plays for a history.
const playURL = "RATION_TEST_PLAY"

// play spends and settles, and prints what it saw.
func play(url string) int {
	l, err := redisledger.Open(url, nil)
	if err != nil {
		return 1
	}
	defer l.Close()
	history, err := ledgertest.Play(context.Background(), l, os.Getpid(), 40)
	if err != nil || json.NewEncoder(os.Stdout).Encode(history) != nil {
		return 1
	}
	return 0
}

// TestHistoryOfEightProcesses: what they saw is what one budget says that is
// asked by one after the other.
func TestHistoryOfEightProcesses(t *testing.T) {
	server := redistest.Start(t)
	var mu sync.Mutex
	var all []ledgertest.Operation
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), playURL+"="+server.URL())
			out, err := cmd.Output()
			var history []ledgertest.Operation
			if err == nil {
				err = json.NewDecoder(bytes.NewReader(out)).Decode(&history)
			}
			if err != nil {
				t.Errorf("child: %v: %s", err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, history...)
		})
	}
	wg.Wait()
	if len(all) < 8*40 {
		t.Fatalf("%d operations; want 40 of each process at least", len(all))
	}
	ledgertest.CheckHistory(t, all)
}
