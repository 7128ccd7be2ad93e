package catalog

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"
)

// child is the other half of the tests below, in a process of its own. What it
// writes to stdout is read by the test.
func child(role string) int {
	name, arg, _ := strings.Cut(role, " ")
	run := map[string]func(path, arg string) error{
		"commit": childCommit, "die": childDie, "lock": childLock, "write": childWrite, "claim": childClaim,
	}[name]
	if err := run(os.Getenv("CATALOG_TEST_PATH"), arg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func spawn(path, role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CATALOG_TEST_CHILD="+role, "CATALOG_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

const childPages = 5

// childCommit commits all pages of one region.
func childCommit(path, region string) error {
	c, err := Open(path, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range childPages {
		p := Page{Region: region, Tick: tick, Step: "trending", Number: i, Videos: chart(fmt.Sprint("shared", i), 20),
			FirstRank: 1 + 20*i}
		if err := c.Commit(context.Background(), p); err != nil {
			return err
		}
	}
	return c.FinishPass(context.Background(), region, tick)
}

// Eight processes create one catalogue and write to it at the same time; none
// fails because the database is busy, and no row is lost.
func TestProcessesWriteAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	regions := []string{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}
	var running []*exec.Cmd
	for _, r := range regions {
		cmd := spawn(path, "commit "+r)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", regions[i], err)
		}
	}
	c := openAt(t, path, &clock{t: day0})
	want := Counts{Videos: 20 * childPages, Positions: int64(20 * childPages * len(regions))}
	if n, err := c.Counts(t.Context()); err != nil || n != want {
		t.Errorf("got %+v, %v, want %+v", n, err, want)
	}
	for _, r := range regions {
		if p, err := c.Pass(t.Context(), r, tick); err != nil || p.Steps["trending"].Pages != childPages ||
			p.FinishedAt.IsZero() {
			t.Errorf("%s: %+v, %v", r, p, err)
		}
	}
	intact(t, c)
}

// childDie commits page 1, and is killed by its own trigger within page 2, or
// after the commit of page 2 and before it could say so.
func childDie(path, when string) error {
	die := func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {}
	}
	if err := sqlite.RegisterScalarFunction("die", 0, die); err != nil {
		return err
	}
	c, err := Open(path, nil)
	if err != nil {
		return err
	}
	c.db.SetMaxOpenConns(1) // a temporary trigger is one connection's
	page := Page{Region: "US", Tick: tick, Step: "trending",
		Videos: chart("a", 50), FirstRank: 1, Next: "CDIQAA"}
	if err := c.Commit(context.Background(), page); err != nil {
		return err
	}
	if when != "" {
		if _, err := c.db.Exec("CREATE TEMP TRIGGER dying " + when + " BEGIN SELECT die(); END"); err != nil {
			return err
		}
	}
	page = secondPage()
	if err := c.Commit(context.Background(), page); err != nil {
		return err
	}
	_, err = c.db.Exec("SELECT die()")
	return fmt.Errorf("still alive: %w", err)
}

func secondPage() Page {
	return Page{Region: "US", Tick: tick, Step: "trending",
		Number: 1, Videos: chart("b", 50), FirstRank: 51,
		Done: true}
}

// A process killed at any point of a commit leaves the page and its checkpoint
// both or neither, and the next run continues from the checkpoint.
func TestAKilledCommitLeavesAllOrNothing(t *testing.T) {
	for _, tc := range []struct {
		name, when string
		pages      int
	}{
		{"checkpoint written, no row yet", "AFTER UPDATE ON checkpoints", 1},
		{"in the middle of the videos", "AFTER INSERT ON videos WHEN new.id = 'b-25'", 1},
		{"at the last position", "AFTER INSERT ON positions WHEN new.rank = 100", 1},
		{"committed, but not reported", "", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "catalog.db")
			cmd := spawn(path, "die "+tc.when)
			if err := cmd.Run(); err == nil || cmd.ProcessState.Exited() {
				t.Fatalf("the child was not killed: %v", err)
			}
			c := openAt(t, path, &clock{t: day0})
			check := func(pages int) {
				t.Helper()
				p, err := c.Pass(t.Context(), "US", tick)
				if err != nil || p.Steps["trending"].Pages != pages || p.Steps["trending"].Videos != 50*pages {
					t.Errorf("checkpoint %+v, %v, want %d pages", p.Steps["trending"], err, pages)
				}
				if n, err := c.Counts(t.Context()); err != nil || n.Videos != int64(50*pages) ||
					n.Positions != int64(50*pages) {
					t.Errorf("rows %+v, %v, want those of %d pages", n, err, pages)
				}
				intact(t, c)
			}
			check(tc.pages)
			commit(t, c, secondPage())
			check(2)
		})
	}
}

// childLock holds a lock until it is killed or its stdin ends.
func childLock(path, name string) error {
	c, err := Open(path, &Options{Host: "host-7"})
	if err != nil {
		return err
	}
	if _, err := c.Lock(name); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A lock is refused with its holder's name while the holder lives, and free as
// soon as the holder is killed.
func TestLockEndsWithItsProcess(t *testing.T) {
	c, _ := openTest(t)
	cmd := spawn(c.path, "lock US")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	_, err = c.Lock("US")
	e, ok := errors.AsType[*LockedError](err)
	if !ok || !errors.Is(err, ErrLocked) || e.PID != cmd.Process.Pid || e.Host != "host-7" ||
		time.Since(e.Since) > time.Minute {
		t.Errorf("got %#v, want a LockedError of pid %d", err, cmd.Process.Pid)
	}
	other, err := c.Lock("GB")
	if err != nil {
		t.Errorf("another name: %v", err)
	}
	other.Unlock()
	cmd.Process.Kill()
	cmd.Wait()
	l, err := c.Lock("US")
	if err != nil {
		t.Fatalf("after its owner was killed: %v", err)
	}
	l.Unlock()
}

// The note of a holder that was killed is there until it is replaced, also
// after holders that were killed before they did that.
func TestNoteOutlivesItsHolders(t *testing.T) {
	c, _ := openTest(t)
	for i, left := range []string{"", "first", "first", "second", ""} {
		l, err := c.Lock("US")
		if err != nil {
			t.Fatal(err)
		}
		if l.Left != left {
			t.Errorf("holder %d reads the note %q; want %q", i, l.Left, left)
		}
		if note := map[int]string{0: "first", 2: "second"}[i]; note != "" {
			if err := l.SetNote(note); err != nil {
				t.Fatal(err)
			}
		}
		if i < 3 {
			l.lock.Close() // as the system does when it is killed
		} else {
			l.Unlock()
		}
	}
}

func TestALockExcludesItsOwnProcess(t *testing.T) {
	c, _ := openTest(t)
	for _, name := range []string{"US", "../odd/näme"} {
		l, err := c.Lock(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Lock(name)
		if e, ok := errors.AsType[*LockedError](err); !ok || e.PID != os.Getpid() || !e.Since.Equal(day0) {
			t.Errorf("a second lock: %v, want a LockedError of this process", err)
		}
		if err := errors.Join(l.Unlock(), l.Unlock()); err != nil {
			t.Error(err)
		}
		again, err := c.Lock(name)
		if err != nil {
			t.Errorf("after Unlock: %v", err)
		}
		again.Unlock()
	}
	var none *Lock
	if err := none.Unlock(); err != nil {
		t.Error(err)
	}
}

// childWrite prints the error of Open for a file that it may not write.
func childWrite(path, _ string) error {
	c, err := Open(path, nil)
	if err == nil {
		c.Close()
	}
	fmt.Println(errors.Is(err, ErrUnwritable), err)
	return nil
}
