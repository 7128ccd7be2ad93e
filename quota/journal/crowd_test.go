package journal_test

import (
	"bytes"
	"context"
	"errors"
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

// upstreamEnv makes this binary a process that calls the upstream at this URL.
const upstreamEnv = "JOURNAL_TEST_UPSTREAM"

// callUpstream calls the upstream until the budget is spent. It begins when its
// input ends.
func callUpstream(upstream, dir string) error {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	g, closeLedger, err := openGuard(dir)
	if err != nil {
		return err
	}
	defer closeLedger()
	for {
		_, err := g.Spend(context.Background(), quota.Call{Account: account, Method: "m", Units: 1})
		switch {
		case errors.Is(err, quota.ErrRefused):
			return nil
		case errors.Is(err, quota.ErrLedgerBusy):
			continue
		case err != nil:
			return err
		}
		resp, err := http.Get(upstream)
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
}

// openGuard opens the SQLite ledger in a folder, behind a journal.
func openGuard(dir string) (g *quota.Guard, closeLedger func() error, err error) {
	inner, err := sqliteledger.Open(filepath.Join(dir, "ration.db"), nil)
	if err != nil {
		return nil, nil, err
	}
	l := journal.New(inner, filepath.Join(dir, "journal"), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 50 }})
	g, err = quota.NewGuard(l, budgets, nil)
	return g, l.Close, err
}

// counter is an upstream that counts its requests.
func counter(t *testing.T) (url string, hits *atomic.Int64) {
	hits = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(s.Close)
	return s.URL, hits
}

// TestCrowdOpensTheAllowance: sixty processes that wait for each other on a healthy
// SQLite ledger spend exactly the limit, and nothing of the allowance.
func TestCrowdOpensTheAllowance(t *testing.T) {
	url, hits := counter(t)
	dir := t.TempDir()
	input, begin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmds, outs := make([]*exec.Cmd, 60), make([]bytes.Buffer, 60)
	for i := range cmds {
		cmds[i] = exec.CommandContext(t.Context(), os.Args[0])
		cmds[i].Env = append(os.Environ(), upstreamEnv+"="+url, childEnv+"="+dir)
		cmds[i].Stdin, cmds[i].Stdout, cmds[i].Stderr = input, &outs[i], &outs[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	input.Close()
	begin.Close()
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v: %s", i, err, &outs[i])
		}
	}
	if n := hits.Load(); n != 500 {
		t.Errorf("%d calls reached the upstream; want 500", n)
	}
	inner, err := sqliteledger.Open(filepath.Join(dir, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := journal.New(inner, filepath.Join(dir, "journal"), &journal.Options{Budgets: budgets})
	t.Cleanup(func() { l.Close() })
	recorded := 0
	for _, err := range l.Entries(t.Context(), quota.Query{Account: account}) {
		if err != nil {
			t.Fatal(err)
		}
		recorded++
	}
	if units, err := l.Unrecorded(account); recorded != 500 || units != 0 || err != nil {
		t.Errorf("%d calls are recorded, %d units of the allowance went out, %v; want 500 and none", recorded, units, err)
	}
}
