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
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// upstreamEnv makes this binary a worker for the upstream at this URL.
const upstreamEnv = "JOURNAL_TEST_UPSTREAM"

// worker is another process that calls the upstream, charged to a SQLite ledger
// behind a journal.
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
	inner, err := sqliteledger.Open(filepath.Join(root, "ledger", "ration.db"), nil)
	if err != nil {
		return err
	}
	l := journal.New(inner, filepath.Join(root, "journal"), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 50 }})
	g, err := quota.NewGuard(l, budgets, nil)
	if err != nil {
		return err
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
