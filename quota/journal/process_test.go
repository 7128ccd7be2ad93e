package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/quota/journal"
)

const (
	childEnv    = "JOURNAL_TEST_DIR" // makes this binary a process that spends there
	childUnits  = 200
	childCalls  = 60
	childrenRun = 8
)

func TestMain(m *testing.M) {
	if upstream := os.Getenv(upstreamEnv); upstream != "" {
		if err := work(upstream, os.Getenv(childEnv)); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(childEnv); dir != "" {
		if os.Getenv(fullEnv) != "" {
			spendOnFullDisk(dir)
			return
		}
		spendAndTell(dir)
		return
	}
	os.Exit(m.Run())
}

// spendAndTell is a job whose ledger is down. It writes a line for each grant,
// where a real job would send a request.
func spendAndTell(dir string) {
	l := journal.New(failing(errDown), dir, allow(childUnits))
	for range childCalls {
		if receipt, err := spend(context.Background(), l, "m", 1); err == nil {
			fmt.Println(receipt.ID)
		}
	}
}

// child starts such a job and calls granted after each of its grants.
func child(t *testing.T, dir string, granted func(*os.Process)) {
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		t.Error(err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		granted(cmd.Process)
	}
	_ = cmd.Wait() // it may have been killed
}

// Eight processes spend exactly the allowance.
func TestEightProcesses(t *testing.T) {
	dir := t.TempDir()
	var granted atomic.Int32
	var wg sync.WaitGroup
	for range childrenRun {
		wg.Go(func() { child(t, dir, func(*os.Process) { granted.Add(1) }) })
	}
	wg.Wait()
	if granted.Load() != childUnits {
		t.Fatalf("%d units went out; want %d", granted.Load(), childUnits)
	}
	unrecorded(t, journal.New(failing(errDown), dir, nil), childUnits)
}

// The file has every grant of killed processes, and at most one more call each.
// The rest of the allowance can still be granted.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	var granted, kills atomic.Int32
	var wg sync.WaitGroup
	for i := range childrenRun {
		wg.Go(func() {
			mine := 0
			child(t, dir, func(p *os.Process) {
				granted.Add(1)
				if mine++; mine == 5+3*i && p.Kill() == nil {
					kills.Add(1)
				}
			})
		})
	}
	wg.Wait()
	l := journal.New(failing(errDown), dir, allow(childUnits))
	left, err := l.Unrecorded(account)
	if err != nil {
		t.Fatal(err)
	}
	if sent := granted.Load(); int32(left) < sent || int32(left) > sent+kills.Load() || kills.Load() == 0 {
		t.Fatalf("%d calls went out, %d are counted, %d kills", sent, left, kills.Load())
	}
	grant(t, l, childUnits-int(left))
}
