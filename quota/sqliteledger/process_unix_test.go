//go:build unix

package sqliteledger_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// The path of a file that another process of a test appends to.
const pathVar = "SQLITELEDGER_TEST_PATH"

// limit is how many appends the processes of a test share.
const limit = 600

func TestMain(m *testing.M) {
	path := os.Getenv(pathVar)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := appendUntilRefused(path); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// appendUntilRefused is the main function of another process. It prints a line
// for each batch that was appended.
func appendUntilRefused(path string) error {
	l, err := sqliteledger.Open(path, &sqliteledger.Options{Sync: sqliteledger.Normal})
	if err != nil {
		return err
	}
	defer l.Close()
	a := &engine.Append{NewEpoch: engine.NewEpoch(), Count: 1, Adds: []engine.Total{{Amount: 1}}, Bytes: 1,
		Conditions: []engine.Condition{{Totals: []uint8{0}, Steps: []engine.Step{{Most: limit - 1}}}}}
	for n := uint32(1); ; n++ {
		a.Data = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(os.Getpid())), n)
		tail, err := l.Append(context.Background(), "project", a)
		switch {
		case err != nil:
			return err
		case tail.Appended:
			fmt.Println(tail.Position)
		case a.Epoch != 0:
			return nil
		}
		a.Known = engine.Known{Epoch: tail.Epoch}
	}
}

// start runs this test binary as another process.
func start(t testing.TB, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), pathVar+"="+path)
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

// TestKilledProcessesLoseNothing: of four processes that share a limit, two are
// killed. The others use up the limit, and what any of them was told is in the
// log.
func TestKilledProcessesLoseNothing(t *testing.T) {
	path := fresh(t)
	var cmds [4]*exec.Cmd
	var outs [4]*bufio.Scanner
	for i := range cmds {
		cmds[i], outs[i] = start(t, path)
	}
	told := map[string]bool{}
	for i := range cmds {
		for n := 0; outs[i].Scan(); n++ {
			if told[outs[i].Text()] {
				t.Errorf("position %s was appended twice", outs[i].Text())
			}
			told[outs[i].Text()] = true
			if i < 2 && n == 20 {
				cmds[i].Process.Kill()
			}
		}
		if err := cmds[i].Wait(); err != nil && i >= 2 {
			t.Error(err)
		}
	}
	tail, err := open(t, path, nil).Read(t.Context(), "project", &engine.Read{})
	if err != nil || tail.Totals[0] != limit || tail.Position != limit || len(tail.Batches) != limit {
		t.Fatalf("total %d, position %d, %d batches, %v; want %d", tail.Totals[0], tail.Position, len(tail.Batches),
			err, limit)
	}
	if len(told) > limit || len(told) < limit-2 { // each kill may hide one answer
		t.Errorf("%d answers; want %d, or two less", len(told), limit)
	}
}

// TestALedgerWithoutPermissionIsAConfigError runs as a user without write
// permission. Root ignores permissions, so tests of root run it as nobody.
func TestALedgerWithoutPermissionIsAConfigError(t *testing.T) {
	folder, err := os.MkdirTemp("", "sqliteledger") //nolint:usetesting // that of the test may not be entered by nobody
	if err != nil {
		t.Fatal(err)
	}
	closed, readable := filepath.Join(folder, "closed"), filepath.Join(folder, "readable")
	t.Cleanup(func() {
		os.Chmod(closed, 0o700)
		os.Chmod(readable, 0o700)
		os.RemoveAll(folder)
	})
	path, binary := filepath.Join(readable, "ration.db"), filepath.Join(folder, "test")
	l := open(t, path, nil)
	write(t, l, "project", 1)
	l.Close()
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	copyProgram(t, os.Args[0], binary)
	for path, mode := range map[string]os.FileMode{closed: 0, readable: 0o555, path: 0o444, path + ".lock": 0o444,
		folder: 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{filepath.Join(closed, "ration.db"), filepath.Join(closed, "deeper", "ration.db"),
		path} {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), pathVar+"="+path)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), engine.ErrLedgerConfig.Error()) ||
			!strings.Contains(string(out), path) {
			t.Errorf("%s: %v, %s; want ErrLedgerConfig", path, err, out)
		}
	}
}

func copyProgram(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
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
