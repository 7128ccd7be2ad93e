package journal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const (
	upstreamEnv = "JOURNAL_TEST_UPSTREAM" // makes this binary a worker for the upstream at this URL
	redisEnv    = "JOURNAL_TEST_REDIS"    // the URL of its ledger, in the place of a SQLite file
	patientEnv  = "JOURNAL_TEST_PATIENT"  // how many callers it has, which go on while the ledger is down, and their allowance
)

// worker is another process that calls the upstream, charged to a ledger behind
// a journal.
type worker struct {
	*testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startWorker starts a worker whose ledger and journal are in root, by a
// program that starts its arguments if one is named.
func startWorker(t *testing.T, upstream, root string, by ...string) *worker {
	t.Helper()
	command := append(by, os.Args[0])
	w := &worker{T: t, cmd: exec.CommandContext(t.Context(), command[0], command[1:]...)}
	w.cmd.Env = append(os.Environ(), upstreamEnv+"="+upstream, childEnv+"="+root)
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// calls lets the worker make calls until one is refused, at most most, and
// returns how many reached the upstream.
func (w *worker) calls(most int) (sent int) {
	w.Helper()
	if _, err := fmt.Fprintln(w.in, most); err != nil {
		w.Error(err)
	}
	if !w.out.Scan() {
		w.Errorf("a worker ended: %v", w.out.Err())
		return 0
	}
	if _, err := fmt.Sscan(w.out.Text(), &sent); err != nil {
		w.Errorf("a worker said: %s", w.out.Text())
	}
	return sent
}

// stop ends the worker. It closes its ledger.
func (w *worker) stop() {
	w.Helper()
	w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		w.Error(err)
	}
}

// kill ends the worker as kill -9 does.
func (w *worker) kill() {
	w.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		w.Error(err)
	}
	_ = w.cmd.Wait() // killed
}

// work is the main function of a worker.
func work(upstream, root string) error {
	callers, allowed := 0, quota.Units(50)
	_, _ = fmt.Sscan(os.Getenv(patientEnv), &callers, &allowed) // or it is not patient
	inner, err := openWorkers(root)
	for ; callers > 0 && errors.Is(err, quota.ErrLedgerDown); inner, err = openWorkers(root) {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	l := journal.New(inner, filepath.Join(root, "journal"), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return allowed }})
	g, err := quota.NewGuard(l, budgets, nil)
	if err != nil {
		return err
	}
	if callers > 0 {
		return workPatiently(upstream, g, callers)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		most, sent := 0, 0
		if _, err := fmt.Sscan(lines.Text(), &most); err != nil {
			return err
		}
		for sent < most {
			_, err := g.Spend(context.Background(), quota.Call{Account: account, Method: "m", Units: 1})
			if errors.Is(err, quota.ErrRefused) {
				break
			}
			if errors.Is(err, quota.ErrLedgerBusy) {
				continue
			}
			if err != nil {
				return err
			}
			resp, err := http.Get(upstream)
			if err != nil {
				return err
			}
			resp.Body.Close()
			sent++
		}
		fmt.Println(sent)
	}
	return l.Close()
}

// openWorkers opens the ledger of workers.
func openWorkers(root string) (quota.Ledger, error) {
	if url := os.Getenv(redisEnv); url != "" {
		return redisledger.Open(url, nil)
	}
	return sqliteledger.Open(filepath.Join(root, "ledger", "ration.db"), nil)
}

// fileJournal opens the ledger and the journal of workers.
func fileJournal(t *testing.T, root string) *journal.Ledger {
	t.Helper()
	inner, err := sqliteledger.Open(filepath.Join(root, "ledger", "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := journal.New(inner, filepath.Join(root, "journal"), &journal.Options{Budgets: budgets})
	t.Cleanup(func() { l.Close() })
	return l
}

// counter is an upstream that counts its requests.
func counter(t *testing.T) (url string, hits *atomic.Int64) {
	hits = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(s.Close)
	return s.URL, hits
}

// workPatiently makes calls by several callers at once, until one line was read
// and each caller was refused. Then it says how many calls may be charged that
// were never sent.
func workPatiently(upstream string, g *quota.Guard, callers int) error {
	logging.Disable() // it would write a line for each failed dial
	finish, finishing := context.WithCancel(context.Background())
	var lost atomic.Int64
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		finishing()
	}()
	failed := make(chan error, callers)
	for range callers {
		go func() { failed <- callPatiently(upstream, g, finish, &lost) }()
	}
	for range callers {
		if err := <-failed; err != nil {
			return err
		}
	}
	fmt.Println(lost.Load())
	return nil
}

// callPatiently makes calls until it is refused one after finish. Each eighth is
// charged two units and settled to one; each fourth has an id, and is repeated up to
// three times if its answer is in doubt.
func callPatiently(upstream string, g *quota.Guard, finish context.Context, lost *atomic.Int64) error {
	call := quota.Call{Account: account, Method: "m", Units: 1}
	var late time.Time // when it gives up
	for n, repeats := 0, 0; ; {
		if repeats == 0 {
			n++
			call.Units, call.ID = 1, quota.ID{}
			if n%8 == 0 {
				call.Units = 2
			}
			if n%4 == 0 {
				call.ID = quota.ID{Client: quota.NewClient(), Seq: 1}
			}
		}
		grant, err := g.Spend(context.Background(), call)
		if repeats = repeats - 1; err == nil || !errors.Is(err, quota.ErrInDoubt) {
			repeats = 0
		}
		switch {
		case err == nil:
			resp, err := http.Get(upstream)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if call.Units == 2 && grant.Settle(context.Background(), 1) != nil {
				lost.Add(1)
			}
			continue
		case errors.Is(err, quota.ErrRefused):
			if finish.Err() != nil && call.Units == 1 {
				return nil
			}
		case errors.Is(err, quota.ErrInDoubt):
			if repeats < 0 && call.ID != (quota.ID{}) { // the first answer
				repeats = 3
			}
			repeats = max(0, repeats)
			lost.Add(int64(call.Units))
		case !errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerBusy) && !errors.Is(err, quota.ErrLedgerLost):
			return err
		}
		switch {
		case finish.Err() == nil:
		case late.IsZero():
			late = time.Now().Add(time.Minute)
		case time.Now().After(late):
			return fmt.Errorf("refused nothing for a minute: %w", err)
		}
		time.Sleep(5 * time.Millisecond) // as a job that tries again later
	}
}

// finish lets a patient worker end, and returns how many calls may be charged
// that it never sent.
func (w *worker) finish() (lost int64) {
	w.Helper()
	fmt.Fprintln(w.in)
	stuck := time.AfterFunc(2*time.Minute, func() { _ = w.cmd.Process.Signal(syscall.SIGQUIT) }) // which prints what its goroutines do
	defer stuck.Stop()
	if !w.out.Scan() {
		w.Fatalf("a worker ended, or was refused nothing for two minutes: %v", w.out.Err())
	}
	if _, err := fmt.Sscan(w.out.Text(), &lost); err != nil {
		w.Errorf("a worker said: %s", w.out.Text())
	}
	w.stop()
	return lost
}
