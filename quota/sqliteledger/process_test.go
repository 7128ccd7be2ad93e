//go:build linux || darwin

package sqliteledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// The role of a process started by a test, and its file.
const roleVar, pathVar = "SQLITELEDGER_TEST_ROLE", "SQLITELEDGER_TEST_PATH"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := act(role, os.Getenv(pathVar)); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

var shared = charge("day", 20_000, quota.Sliding(time.Hour))

// act is the main function of the other process.
func act(role, path string) error {
	role, client, _ := strings.Cut(role, " ")
	o := &sqliteledger.Options{Sync: sqliteledger.Normal}
	switch role {
	case "synced", "twice":
		o.Sync = sqliteledger.Full
	case "die": // in the middle of a migration
		o.Now = func() time.Time {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	case "stop": // stops with the lock held, in the middle of a transaction
		goOn := make(chan os.Signal, 1)
		signal.Notify(goOn, syscall.SIGCONT)
		o.Now = func() time.Time {
			syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			<-goOn // this thread may run for a moment before the process stops
			return time.Now()
		}
	}
	if role == "full" { // no file can grow beyond 1000 bytes
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1000, Max: 1 << 30}); err != nil {
			return err
		}
	}
	l, err := sqliteledger.Open(path, o)
	if err != nil {
		return err
	}
	defer l.Close()
	switch role {
	case "stop":
		_, err := l.Spend(context.Background(), one(7, shared))
		return err
	case "crowded":
		return spendUntilFull(l, path)
	case "play", "race", "floors":
		n, err := strconv.Atoi(client)
		if err != nil {
			return err
		}
		return inCrowd(role, n, l)
	case "twice":
		return spendTwice(l)
	case "report":
		return spendAndReport(l, func(i int) quota.Units { return 1 }, shared)
	}
	return spendAndReport(l, func(i int) quota.Units { return quota.Units([]int{1, 100, 3, 7}[i%4]) }, shared)
}

// start runs this test binary in a role, with an optional input.
func start(t testing.TB, role, path string, stdin ...*os.File) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	if len(stdin) > 0 {
		cmd.Stdin = stdin[0]
	}
	cmd.Env = append(os.Environ(), roleVar+"="+role, pathVar+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestEightProcesses spend one budget with calls of 1, 3, 7 and 100 units. The
// file does not exist at first.
func TestEightProcesses(t *testing.T) {
	path := fresh(t)
	granted := 0
	for _, mine := range spenders(t, path, 8) {
		granted += mine
	}
	l := open(t, path, nil)
	if n := used(t, l, shared); granted != 20_000 || n != 20_000 {
		t.Errorf("granted %d, recorded %d; want 20000", granted, n)
	}
}

// spenders starts n processes that spend until the budget is full, and returns
// what each was granted.
func spenders(t *testing.T, path string, n int) (granted []int) {
	t.Helper()
	cmds, outs := make([]*exec.Cmd, n), make([]*bufio.Scanner, n)
	for i := range cmds {
		cmds[i], outs[i] = start(t, "spend", path)
	}
	for i, out := range outs {
		mine := 0
		for out.Scan() {
			units, _, _ := strings.Cut(out.Text(), " ")
			n, err := strconv.Atoi(units)
			if err != nil {
				t.Errorf("process %d: %s", i, out.Text())
			}
			mine += n
		}
		if err := cmds[i].Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		granted = append(granted, mine)
	}
	return granted
}

// TestKilledWhileSpending: what was granted before the kill is in the ledger,
// and at most one more spend whose answer was lost.
func TestKilledWhileSpending(t *testing.T) {
	path := fresh(t)
	for range 3 {
		cmd, out := start(t, "report", path)
		reported := map[string]bool{}
		for out.Scan() {
			reported[strings.TrimPrefix(out.Text(), "1 ")] = true
			if len(reported) == 50 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait() // killed
		l := open(t, path, nil)
		client, found := "", 0
		for id := range reported {
			client, _, _ = strings.Cut(id, "-")
			break
		}
		for e, err := range l.Entries(t.Context(), quota.Query{Account: "my-project"}) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(e.ID.String(), client) {
				found++
				delete(reported, e.ID.String())
			}
		}
		if len(reported) > 0 {
			t.Errorf("%d granted calls are missing: %v", len(reported), reported)
		}
		if found < 50 {
			t.Errorf("%d entries; want at least 50", found)
		}
		if n, err := l.Number("SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 || err != nil {
			t.Errorf("%d faults, %v", n, err)
		}
		spend(t, l, 1, shared)
		l.Close()
	}
}

// TestHolderStopped: a process that is stopped inside its transaction delays
// others until it continues, at most until their deadline or for a second. The
// ledger is busy then, not down, so that no allowance is used.
func TestHolderStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("waits a second for a lock")
	}
	path := fresh(t)
	l := open(t, path, nil)
	receipt := spend(t, l, 5, shared)
	cmd, _ := start(t, "stop", path)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%v, %v; want it stopped", status, err)
	}
	began := time.Now()
	if _, err := l.Spend(t.Context(), one(1, shared)); !errors.Is(err, quota.ErrLedgerBusy) || errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerBusy", err)
	}
	if took := time.Since(began); took < time.Second/2 || took > 5*time.Second {
		t.Errorf("gave up after %s; want about a second", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := l.Settle(ctx, receipt, 6); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want the context's error", err)
	}
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("gave up after %s; want 20ms", took)
	}
	if n := used(t, l, shared); n != 5 { // reading does not wait for a turn
		t.Errorf("%d used; want 5", n)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	spend(t, l, 1, shared)
	if n := used(t, l, shared); n != 13 {
		t.Errorf("%d used; want 5, 7 and 1", n)
	}
}

// TestWriteRefusedInCommit is about ErrInDoubt.
func TestWriteRefusedInCommit(t *testing.T) {
	cmd, out := start(t, "crowded", fresh(t))
	for out.Scan() {
		t.Error(out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestFullDiskHidesTheFile opens a ledger on a disk that has no room for its
// -shm: SQLite's error says neither which file it is nor that the disk is full.
func TestFullDiskHidesTheFile(t *testing.T) {
	path := fresh(t)
	if err := open(t, path, nil).Close(); err != nil {
		t.Fatal(err)
	}
	cmd, out := start(t, "full", path)
	out.Scan()
	if text := out.Text(); !strings.Contains(text, path) || !strings.Contains(text, "(4874); free some space on its disk") {
		t.Errorf("%s; want the path and what to do", text)
	}
	_ = cmd.Wait() // it ends with an error
}

// TestWithoutPermission runs as a user without write permission: as the user
// nobody if the tests run as root, which ignores permissions.
func TestWithoutPermission(t *testing.T) {
	folder, err := os.MkdirTemp("", "sqliteledger")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(filepath.Join(folder, "closed"), 0o700)
		os.RemoveAll(folder)
	})
	for _, dir := range []string{"closed", "readable"} {
		if err := os.Mkdir(filepath.Join(folder, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	readable := filepath.Join(folder, "readable", "ration.db")
	l := open(t, readable, nil)
	spend(t, l, 1, shared)
	l.Close()
	binary := filepath.Join(folder, "test")
	copyFile(t, os.Args[0], binary, 0o755)
	for path, mode := range map[string]os.FileMode{
		filepath.Join(folder, "closed"):   0,
		filepath.Join(folder, "readable"): 0o555,
		readable:                          0o444,
		readable + ".lock":                0o444,
		folder:                            0o755,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(folder, "closed", "ration.db"), filepath.Join(folder, "closed", "deeper", "ration.db"), readable} {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), roleVar+"=spend", pathVar+"="+path)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), quota.ErrLedgerConfig.Error()) || !strings.Contains(string(out), path) {
			t.Errorf("%s: %v, %s; want ErrLedgerConfig", path, err, out)
		}
	}
	os.Chmod(filepath.Join(folder, "readable"), 0o755)
}

func copyFile(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
