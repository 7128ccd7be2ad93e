//go:build unix

package replica_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
)

// folderEnv makes this binary a process that grants calls in that folder while
// its ledger is down.
const folderEnv = "REPLICA_TEST_FOLDER"

const allowance = 100

func TestMain(m *testing.M) {
	if folder := os.Getenv(folderEnv); folder != "" {
		grantAllowance(folder)
		return
	}
	os.Exit(m.Run())
}

// grantAllowance grants units until the allowance is spent, and writes a line
// for each.
func grantAllowance(folder string) {
	r, err := replica.Open(folder, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	client := engine.NewClient()
	for seq := uint64(1); ; seq++ {
		isGranted, err := grantOutage(r, engine.ID{Client: client, Seq: seq}, time.Now(), allowance)
		if err != nil {
			fmt.Println(err)
		}
		if !isGranted {
			return
		}
		fmt.Println("granted")
	}
}

// grantOutage grants a unit if the allowance has one.
func grantOutage(r *replica.Replica, id engine.ID, now time.Time, most int64) (isGranted bool, err error) {
	err = r.Outage(accountCopy, now, func(recent []engine.Record) (*engine.Record, error) {
		used := int64(0)
		for _, record := range recent {
			used += record.Amounts.Units
		}
		if isGranted = used < most; !isGranted {
			return nil, nil
		}
		return &engine.Record{Kind: engine.KindGrant, ID: id, Amounts: engine.Amounts{Units: 1, Calls: 1}}, nil
	})
	return isGranted && err == nil, err
}

func TestProcessesShareOneAllowance(t *testing.T) {
	f := newFixture(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outputs := make([]bytes.Buffer, 6)
	var wg sync.WaitGroup
	for i := range outputs {
		wg.Go(func() {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), folderEnv+"="+f.folder)
			cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	granted := 0
	for i := range outputs {
		for line := range strings.Lines(outputs[i].String()) {
			if granted++; line != "granted\n" {
				t.Fatal(line)
			}
		}
	}
	if granted != allowance {
		t.Errorf("%d granted of %d", granted, allowance)
	}
	f.now = time.Now()
	if loaded := strings.Fields(f.load(f.open())); len(loaded) != allowance || loaded[0] != "0/0=1" {
		t.Errorf("%d records are kept: %s", len(loaded), loaded)
	}
}

func TestAnAllowanceReturnsAfterADay(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	id := engine.ID{Client: engine.NewClient()}
	grant := func() bool {
		t.Helper()
		id.Seq++
		isGranted, err := grantOutage(r, id, f.now, 2)
		if err != nil {
			t.Fatal(err)
		}
		return isGranted
	}
	granted := func() (count int) {
		for range 3 {
			if grant() {
				count++
			}
		}
		return count
	}
	if n := granted(); n != 2 {
		t.Fatalf("granted %d of an allowance of 2", n)
	}
	f.now = noon.Add(24*time.Hour - time.Microsecond)
	if grant() {
		t.Error("granted before a day has passed")
	}
	r, f.now = f.open(), noon.Add(24*time.Hour)
	if n := granted(); n != 2 {
		t.Errorf("granted %d of an allowance of 2, a day later", n)
	}
}

// withFullDisk runs f while no file can grow beyond a size.
func withFullDisk(t *testing.T, most int64, f func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	full := before
	full.Cur = uint64(most)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// fullEnv says that this process is one of a test whose disk is full.
const fullEnv = "REPLICA_TEST_FULL"

func TestAFullDiskIsReportedOnceAMinute(t *testing.T) {
	if os.Getenv(fullEnv) == "" { // in a process of its own, which writes no other files
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), fullEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	f := newFixture(t)
	f.now = time.Now()
	r := f.open()
	l := (&replicaLog{epoch: 7}).add(1, 2, 3, 4, 5)
	l.save(r, 0, 1)
	withFullDisk(t, f.size()+10, func() { // so the second batch is torn
		l.save(r, 1, 2)
		l.save(r, 2, 3)
		if len(f.reports) != 1 || !errors.Is(r.Err(), syscall.EFBIG) {
			t.Errorf("reports %q, Err %v", f.reports, r.Err())
		}
		isGranted, err := grantOutage(r, engine.ID{Client: 1, Seq: 1}, f.now, 2)
		if isGranted || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("granted %t, %v, and not recorded", isGranted, err)
		}
		f.now = f.now.Add(time.Minute)
		l.save(r, 3, 4)
		if len(f.reports) != 2 || f.reports[0] != f.reports[1] {
			t.Errorf("reports %q", f.reports)
		}
	})
	l.save(r, 4, 5)
	if r.Err() != nil {
		t.Errorf("Err %v after a success", r.Err())
	}
	f.reports = nil
	f.want(f.load(f.open()), "7/1=1 0/5=5")
	if len(f.reports) != 1 || !strings.Contains(f.reports[0], "skipped") {
		t.Errorf("reports %q", f.reports)
	}
}
