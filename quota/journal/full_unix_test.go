//go:build unix

package journal_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/quota/journal"
)

// fullEnv makes this binary a process whose files cannot grow beyond a number
// of bytes, as on a full disk. It spends one unit in childEnv's folder.
const fullEnv = "JOURNAL_TEST_FULL"

func spendOnFullDisk(dir string) {
	most, err := strconv.ParseUint(os.Getenv(fullEnv), 10, 64)
	if err != nil {
		panic(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	limit.Cur = most
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	if _, err := spend(context.Background(), journal.New(failing(errDown), dir, allow(1000)), "m", 1); err != nil {
		fmt.Print(err)
		return
	}
	fmt.Print("granted")
}

// TestAFullDiskLosesNoCalls: a call that cannot be written is refused, and what
// was written before stays, however much of the record fits on the disk.
func TestAFullDiskLosesNoCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a disk, 1 second")
	}
	t.Parallel()
	dir := t.TempDir()
	grant(t, journal.New(failing(errDown), dir, allow(3)), 3)
	whole := read(t, file(t, dir))
	if out := onFullDisk(t, dir, 10*len(whole)); out != "granted" {
		t.Fatalf("%s; want it granted", out)
	}
	size := len(read(t, file(t, dir)))
	for most := len(whole); most < size; most++ {
		write(t, file(t, dir), whole)
		out := onFullDisk(t, dir, most)
		if out == "granted" { // its random id takes a byte less, and all of it fits
			unrecorded(t, journal.New(failing(errDown), dir, nil), 4)
			continue
		}
		if !strings.Contains(out, "cannot be counted") {
			t.Fatalf("%d bytes of %d fit: %s; want it refused", most, size, out)
		}
		if now := read(t, file(t, dir)); !bytes.HasPrefix(now, whole) {
			t.Fatalf("%d bytes of %d fit: the file lost something", most, size)
		}
		unrecorded(t, journal.New(failing(errDown), dir, nil), 3)
	}
	write(t, file(t, dir), whole) // the last may have fitted
	grant(t, journal.New(failing(errDown), dir, allow(4)), 1)
	unrecorded(t, journal.New(failing(errDown), dir, nil), 4)
}

// onFullDisk returns the output of a process whose files cannot grow beyond
// most bytes.
func onFullDisk(t *testing.T, dir string, most int) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, fullEnv+"="+strconv.Itoa(most))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
