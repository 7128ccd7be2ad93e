//go:build unix

package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// asRunner in the environment makes the test binary a process that runs a
// region of the folder in the variable, as N. It is killed at the Nth of these
// moments: before and after each append to the ledger.
const asRunner = "RATION_TEST_AS_RUNNER"

// dyingLedger kills its process.
type dyingLedger struct {
	quota.Ledger
	left atomic.Int64 // moments until that; negative means never
}

// Append implements quota.Ledger.
func (l *dyingLedger) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	tail, err := l.Ledger.Append(ctx, account, a)
	return tail, errors.Join(err, l.pass())
}

// pass kills the process if the moment has come.
func (l *dyingLedger) pass() error {
	if l.left.Add(-1) != 0 {
		return nil
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	return errors.Join(errors.New("still alive"), err)
}

// runClaimed runs the region of a folder, whose program does nothing.
func runClaimed(dir string, moments int64) (*jobs.Report, error) {
	ledger, err := sqliteledger.Open(filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return nil, err
	}
	defer ledger.Close()
	table, err := costs.Parse("costs.yaml", []byte(acme+"  - {name: all, limit: 100, window: 24h}\n"))
	if err != nil {
		return nil, err
	}
	dying := &dyingLedger{Ledger: ledger}
	dying.left.Store(moments)
	guard, err := quota.NewGuard(dying, table.Budgets(), nil)
	if err != nil {
		return nil, err
	}
	text := "version: 1\nschedule: 0 11 * * *\nfetch: [{command: [/bin/true], job: nothing}]\nregions: {emea: {}}\n"
	config, err := jobs.Parse(filepath.Join(dir, "regions.yaml"), []byte(text), table.CheckFetched)
	if err != nil {
		return nil, err
	}
	store, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	runner := &jobs.Runner{Catalog: store, Guard: guard, Table: table, Now: func() time.Time { return noon }}
	return runner.Run(context.Background(), config.Regions)
}

// mainRunner is the process of asRunner.
func mainRunner(dir string) {
	moments, err := strconv.ParseInt(os.Args[1], 10, 64)
	if err == nil {
		_, err = runClaimed(dir, moments)
	}
	panic(fmt.Sprint("still alive: ", err))
}

// TestTheRunAfterSeveralKilledOnesNeedNotWait: a run is killed with a claim,
// and the next ones before they have taken it over. The one after these is not
// kept waiting for the claim to lapse.
func TestTheRunAfterSeveralKilledOnesNeedNotWait(t *testing.T) {
	dir := t.TempDir()
	const (
		holding    = "3"
		asking     = "1"
		takingOver = "2" // the ledger has granted the claim, and the run does not know it
	)
	for _, n := range []string{holding, asking, asking, takingOver} {
		cmd := exec.Command(os.Args[0], n)
		cmd.Env = append(os.Environ(), asRunner+"="+dir)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("the run was not killed at moment %s: %v\n%s", n, err, out)
		}
	}
	report, err := runClaimed(dir, -1)
	if err != nil || report.Outcome != jobs.Complete || report.Regions[0].Outcome != jobs.Complete {
		t.Errorf("%+v, %v; want it complete", report, err)
	}
}
