//go:build unix

package allowance_test

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
	"time"

	"github.com/ration-dev/ration/quota/allowance"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// fullEnv makes this binary a process whose files cannot grow beyond a number of
// bytes, as on a full disk. It spends one unit in childEnv's folder.
const fullEnv = "ALLOWANCE_TEST_FULL"

const later = 49 * time.Hour // when what was granted at noon is old enough to leave the file

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
	clock := &ledgertest.Clock{}
	clock.Set(noon.Add(later))
	o := allow(1000)
	o.Now = clock.Now
	if _, err := spend(context.Background(), allowance.New(failing(errDown), dir, o), "m", 1); err != nil {
		fmt.Print(err)
		return
	}
	fmt.Print("granted")
}

// The old file stays until the new one is whole, however much of it fits on the
// disk.
func TestCompactingOnAFullDiskLosesNoCalls(t *testing.T) {
	clock, dir := &ledgertest.Clock{}, t.TempDir()
	o := allow(1000)
	o.Now = clock.Now
	l := allowance.New(failing(errDown), dir, o)
	const old, young = 100, 40
	for i := range old + young {
		clock.Set(noon)
		if i >= old {
			clock.Set(noon.Add(later - 20*time.Hour))
		}
		if _, err := spend(t.Context(), l, "m", 1); err != nil {
			t.Fatal(err)
		}
	}
	whole := read(t, file(t, dir))
	clock.Set(noon.Add(later))
	kept := len(whole) * young / (old + young)
	for _, most := range []int{0, 1, 100, kept / 2, kept - 1} {
		out := onFullDisk(t, dir, most)
		if !strings.Contains(out, "cannot be counted") {
			t.Errorf("%d bytes fit: %s; want it refused", most, out)
		}
		if now := read(t, file(t, dir)); !bytes.Equal(now, whole) {
			t.Errorf("%d bytes fit: the file has %d bytes of %d", most, len(now), len(whole))
		}
		if _, err := os.Stat(file(t, dir) + ".tmp"); err == nil {
			t.Errorf("%d bytes fit: a part of the new file is left on the full disk", most)
		}
		unrecorded(t, l, young)
	}
	// With room for the new file, but not for the old one and a line, it is replaced.
	if out := onFullDisk(t, dir, len(whole)/2); out != "granted" {
		t.Errorf("%s; want it granted", out)
	}
	if lines := bytes.Count(read(t, file(t, dir)), []byte("\n")); lines != young+1 {
		t.Errorf("%d lines; want %d", lines, young+1)
	}
	unrecorded(t, l, young+1)
}

// onFullDisk returns the output of a process whose files cannot grow beyond most
// bytes.
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
