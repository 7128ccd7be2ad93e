package main

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/quota"
)

// TestRefusalIsKept: the last refusal is read back as it was, without what is
// secret, while other processes write beside it.
func TestRefusalIsKept(t *testing.T) {
	a := &app{secrets: new(cli.Secrets), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer), stateDir: t.TempDir(),
		getenv: func(string) string { return "" }}
	a.secrets.Hide("AIzaSECRET")
	a.secrets.Hide("another-secret")
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\nupstream: u\naccount: p\ncosts: {m: 1}\nbudgets: [{name: all, limit: 100, window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.setup().Open(table, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Date(2026, 11, 20, 12, 0, 0, 1000, time.UTC)
	refused := &quota.RefusedError{Account: "p", Budget: "all", Method: "search.list", Reason: quota.ReasonCooldown,
		Detail:  "bad key AIzaSECRET another-secret",
		RetryAt: at.Add(time.Hour), RetryAfter: time.Hour, Needed: 100, Units: 100,
		Caller: quota.Caller{Region: "IN", Job: "search:\x1b", Lane: "cron"}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { a.exit(&reported{fmt.Errorf("wrapped: %w", refused)}) })
	}
	wg.Wait()
	kept, err := a.setup().LastRefusal()
	if err != nil || kept == nil {
		t.Fatalf("%v, %v; want the refusal", kept, err)
	}
	if !kept.At.Equal(at) || *kept.Budget != "all" || kept.Region != "IN" || kept.Job != "search:\x1b" ||
		kept.Units != 100 || kept.Ledger != s.LedgerName() {
		t.Errorf("kept %+v", kept)
	}
	if told := *kept.Detail + kept.Message; strings.Contains(told, "SECRET") || strings.Contains(told, "another") {
		t.Errorf("a secret is kept: %s", told)
	}
	a.exit(&quota.NeverFitsError{}) // is no refusal
	if again, err := a.setup().LastRefusal(); err != nil || !again.At.Equal(at) {
		t.Errorf("%v, %v; want the refusal still", again, err)
	}
}
