package redisledger_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// playURL makes the test binary a process that spends for a history or, if
// playAs is set, as one of eight regions.
const (
	playURL = "RATION_TEST_PLAY"
	playAs  = "RATION_TEST_PLAY_AS"
)

// play spends, and prints the answers.
func play(url string) int {
	l, err := redisledger.Open(url, nil)
	if err != nil {
		return 1
	}
	defer l.Close()
	var saw any
	if region := os.Getenv(playAs); region != "" {
		client, _ := strconv.Atoi(region)
		saw, err = ledgertest.PlayFloors(context.Background(), l, client)
	} else {
		saw, err = ledgertest.Play(context.Background(), l, os.Getpid(), 40)
	}
	if err != nil {
		println(err.Error())
		return 1
	}
	if json.NewEncoder(os.Stdout).Encode(saw) != nil {
		return 1
	}
	return 0
}

// eightPlay starts eight processes and returns the answers of each.
func eightPlay[T any](t *testing.T, server *redistest.Server, env func(client int) string) []T {
	t.Helper()
	all := make([]T, 8)
	var wg sync.WaitGroup
	for client := range all {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), playURL+"="+server.URL(), env(client))
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err == nil {
				err = json.Unmarshal(out, &all[client])
			}
			if err != nil {
				t.Errorf("child: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	return all
}

// TestHistoryOfEightProcesses: their answers are those of one budget that is
// asked sequentially.
func TestHistoryOfEightProcesses(t *testing.T) {
	var all []ledgertest.Operation
	for _, history := range eightPlay[[]ledgertest.Operation](t, redistest.Start(t), func(int) string { return "" }) {
		all = append(all, history...)
	}
	if len(all) < 8*40 {
		t.Fatalf("%d operations; want 40 of each process at least", len(all))
	}
	ledgertest.CheckHistory(t, all)
}

// TestFloorsOfEightProcesses: each gets its region's floor, however fast the
// others spend.
func TestFloorsOfEightProcesses(t *testing.T) {
	server := redistest.Start(t)
	all := eightPlay[ledgertest.Regional](t, server, func(client int) string { return playAs + "=" + strconv.Itoa(client) })
	l, err := redisledger.Open(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ledgertest.CheckFloors(t, l, all)
}
