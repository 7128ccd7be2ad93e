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
	"slices"
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
	budgets := budgets
	if callers > 0 {
		budgets = patientBudgets()
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
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		finishing()
	}()
	failed := make(chan error, callers)
	patients := make([]patient, callers)
	for i := range patients {
		p := &patients[i]
		p.upstream, p.guard = upstream, g
		go func() { failed <- p.goOn(finish) }()
	}
	for range patients {
		if err := <-failed; err != nil {
			return err
		}
	}
	lost := 0
	for i := range patients {
		lost += patients[i].lost
	}
	fmt.Println(lost)
	return nil
}

// patient is a caller that goes on while the ledger is down.
type patient struct {
	upstream string
	guard    *quota.Guard
	calls    int // that it has begun
	lost     int // how many units may be charged of calls that were never sent
}

// patientBudgets are those of patient workers. The first covers all methods.
func patientBudgets() []quota.Budget {
	return append(slices.Clone(budgets),
		quota.Budget{Account: account, Name: "searches", Methods: []string{"search"}, Limit: 80, Window: quota.Sliding(24 * time.Hour)},
		quota.Budget{Account: account, Name: "month", Methods: []string{"list"}, Limit: 60, Window: quota.Monthly(time.UTC)})
}

// goOn makes calls until it is refused one unit after finish.
func (p *patient) goOn(finish context.Context) error {
	var late time.Time // when it gives up
	for {
		call, count := p.next()
		err := p.make(call, count)
		switch {
		case err == nil:
			continue
		case errors.Is(err, quota.ErrRefused):
			if finish.Err() != nil && call.Units == 1 && count == 1 && call.Method == "m" {
				return nil
			}
		case !errors.Is(err, quota.ErrInDoubt) && !errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerBusy) && !errors.Is(err, quota.ErrLedgerLost):
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

// next returns a call, and how many alike it are made together.
func (p *patient) next() (call quota.Call, count int) {
	p.calls++
	call, count = quota.Call{Account: account, Method: "m", Units: 1}, 1
	is := func(every int) bool { return p.calls%every == 0 }
	switch {
	case is(5):
		call.Method = "search"
	case is(7):
		call.Method = "list"
	}
	if is(8) {
		call.Units = 2
	}
	if is(4) {
		call.ID = quota.ID{Client: quota.NewClient(), Seq: 1}
	}
	if is(13) {
		count = 3
	}
	return call, count
}

// make charges calls and sends them. Those that were charged two units are
// settled to one. One with an id is repeated up to three times if its answer is
// in doubt.
func (p *patient) make(call quota.Call, count int) error {
	grants, err := p.guard.SpendTogether(context.Background(), call, count, 0)
	for range 3 {
		if call.ID == (quota.ID{}) || !errors.Is(err, quota.ErrInDoubt) {
			break
		}
		p.lost += int(call.Units) * count
		time.Sleep(5 * time.Millisecond)
		grants, err = p.guard.SpendTogether(context.Background(), call, count, 0)
	}
	if err != nil && (count > 1 || errors.Is(err, quota.ErrInDoubt)) {
		p.lost += int(call.Units) * count
	}
	for _, grant := range grants {
		resp, err := http.Get(p.upstream + "/" + call.Method)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if call.Units == 2 && grant.Settle(context.Background(), 1) != nil {
			p.lost++
		}
	}
	return err
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
