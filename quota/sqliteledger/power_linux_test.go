package sqliteledger_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/straced"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// disk is what a process has written to the files of one folder, and what of
// it a power cut leaves: what had been synced.
type disk struct {
	folder          string
	written, synced map[string][]byte // by path
	printed         string            // on standard output
	syncing         map[string]string // the path of the last sync, by thread
}

var (
	hexText  = `"((?:\\x[0-9a-f]{2})*)"`
	sysWrite = regexp.MustCompile(`^\d+ +pwrite64\(\d+<([^>]*)>, ` + hexText + `, \d+, (\d+)`)
	sysPrint = regexp.MustCompile(`^\d+ +write\(1<[^>]*>, ` + hexText)
	sysTrim  = regexp.MustCompile(`^\d+ +ftruncate\(\d+<([^>]*)>, (\d+)`)
	sysSync  = regexp.MustCompile(`^(\d+) +(?:fsync|fdatasync)\(\d+<([^>]*)>(\) += 0)?`)
	sysDone  = regexp.MustCompile(`^(\d+) +<\.\.\. (?:fsync|fdatasync) resumed>\) += 0`)
	sysDrop  = regexp.MustCompile(`^\d+ +unlink(?:at)?\((?:[^"]*, )?` + hexText)
)

// sync ends the sync of a thread. Only one thread writes at a time.
func (d *disk) sync(thread string) bool {
	path := d.syncing[thread]
	if file, ok := d.written[path]; ok {
		d.synced[path] = bytes.Clone(file)
	}
	return true
}

// apply applies one line of a trace. It reports whether it has synced a file or
// printed something.
func (d *disk) apply(t *testing.T, line string) bool {
	t.Helper()
	text := func(escaped string) string {
		s, err := strconv.Unquote(`"` + escaped + `"`)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if m := sysWrite.FindStringSubmatch(line); m != nil {
		path, data, at := text(m[1]), text(m[2]), number(m[3])
		file := d.written[path]
		if missing := at + len(data) - len(file); missing > 0 {
			file = append(file, make([]byte, missing)...)
		}
		copy(file[at:], data)
		d.written[path] = file
	} else if m := sysTrim.FindStringSubmatch(line); m != nil {
		file := append(d.written[text(m[1])], make([]byte, number(m[2]))...)
		d.written[text(m[1])] = file[:number(m[2])]
	} else if m := sysDrop.FindStringSubmatch(line); m != nil {
		delete(d.written, text(m[1]))
		delete(d.synced, text(m[1]))
	} else if m := sysSync.FindStringSubmatch(line); m != nil {
		d.syncing[m[1]] = text(m[2])
		return m[3] != "" && d.sync(m[1])
	} else if m := sysDone.FindStringSubmatch(line); m != nil {
		return d.sync(m[1])
	} else if m := sysPrint.FindStringSubmatch(line); m != nil {
		d.printed += text(m[1])
		return true
	}
	return false
}

// granted returns the units that the process has said were granted.
func (d *disk) granted(t *testing.T) (sum quota.Units) {
	t.Helper()
	for line := range strings.Lines(d.printed) {
		var units quota.Units
		if _, err := fmt.Sscan(line, &units); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += units
	}
	return sum
}

// cutPower returns the units that the ledger holds after a power cut.
func (d *disk) cutPower(t *testing.T) quota.Units {
	t.Helper()
	after := t.TempDir()
	for path, data := range d.synced {
		if filepath.Dir(path) != d.folder || strings.HasSuffix(path, "-shm") {
			continue
		}
		if err := os.WriteFile(filepath.Join(after, filepath.Base(path)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := sqliteledger.Open(filepath.Join(after, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	standings, err := l.Standings(t.Context(), "my-project", "", []*quota.Charge{shared})
	if err != nil {
		t.Fatal(err)
	}
	return standings[0].Used
}

// spendTraced runs a process that spends, under strace, until it has printed
// this many grants.
func spendTraced(t *testing.T, strace []string, path string, grants int) {
	t.Helper()
	cmd, out, lines := startTraced(t, strace, "synced", path)
	for range grants {
		if !lines.Scan() {
			t.Fatalf("the process ended: %v", lines.Err())
		}
	}
	out.Close() // the next line ends the process by SIGPIPE
	_ = cmd.Wait()
}

// startTraced runs this test binary in a role under strace.
func startTraced(t *testing.T, strace []string, role, path string) (*exec.Cmd, io.Closer, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), strace[0], append(strace[1:], os.Args[0])...)
	cmd.Env = append(os.Environ(), roleVar+"="+role, pathVar+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, bufio.NewScanner(out)
}

// TestPowerCutLosesGrants: the power fails at each moment at which a grant has
// been given or a file synced. What is on the disk then, which is what was
// synced, holds every grant.
func TestPowerCutLosesGrants(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, trace := filepath.Join(folder, "ration.db"), filepath.Join(t.TempDir(), "trace")
	strace := straced.Command(t, trace, "-y", "-xx", "-s", "100000000", "-e", "trace=pwrite64,write,ftruncate,fsync,fdatasync,unlink,unlinkat")
	l, err := sqliteledger.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Spend(t.Context(), one(1, shared)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := &disk{folder: folder, written: map[string][]byte{}, synced: map[string][]byte{}, syncing: map[string]string{}}
	files, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if d.written[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		d.synced[file] = bytes.Clone(d.written[file])
	}

	spendTraced(t, strace, path, 40)
	data, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	cuts := 0
	for line := range strings.Lines(string(data)) {
		if !d.apply(t, line) {
			continue
		}
		cuts++
		if granted, held := 1+d.granted(t), d.cutPower(t); held < granted {
			t.Fatalf("power cut %d: the ledger holds %d units; %d were granted", cuts, held, granted)
		}
	}
	if d.granted(t) < 40 || cuts < 80 {
		t.Fatalf("%d units and %d moments in the trace; want 40 grants at least, each with a sync before it", d.granted(t), cuts)
	}
}
