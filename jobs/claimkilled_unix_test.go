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
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// asRunner in the environment makes the test binary a process that runs a
// region of the folder in the variable, as N. It is killed before it spends for
// the Nth time.
const asRunner = "RATION_TEST_AS_RUNNER"

// dyingLedger kills its process.
type dyingLedger struct {
	quota.Log
	left int // spends before that; negative means never
}

// Spend implements quota.Log.
func (l *dyingLedger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if l.left == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		return nil, errors.Join(errors.New("still alive"), err)
	}
	l.left--
	return l.Log.Spend(ctx, batch)
}

// runClaimed runs the region of a folder, whose program does nothing.
func runClaimed(dir string, spends int) (*jobs.Report, error) {
	ledger, err := ledgertest.SQLite(filepath.Join(dir, "ledger.db"), nil)
	if err != nil {
		return nil, err
	}
	defer ledger.Close()
	table, err := costs.Parse("costs.yaml", []byte(acme+"  - {name: all, limit: 100, window: 24h}\n"))
	if err != nil {
		return nil, err
	}
	guard, err := quota.NewGuard(&dyingLedger{Log: ledger, left: spends}, table.Budgets(), nil)
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
	spends, err := strconv.Atoi(os.Args[1])
	if err == nil {
		_, err = runClaimed(dir, spends-1)
	}
	panic(fmt.Sprint("still alive: ", err))
}

// TestSeveralRunsAreKilled: a run is killed with a claim, and the next ones
// before they have taken it over. The one after these is not kept waiting for
// the claim to lapse.
func TestSeveralRunsAreKilled(t *testing.T) {
	dir := t.TempDir()
	const (
		holding    = "3" // the claim is granted, and has its owner's name
		asking     = "1"
		takingOver = "2" // the claim is refused, and that of the dead is ended
	)
	for _, n := range []string{holding, asking, asking, takingOver} {
		cmd := exec.Command(os.Args[0], n)
		cmd.Env = append(os.Environ(), asRunner+"="+dir)
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.Exited() {
			t.Fatalf("the run was not killed at its spend %s: %v\n%s", n, err, out)
		}
	}
	report, err := runClaimed(dir, -1)
	if err != nil || report.Outcome != jobs.Complete || report.Regions[0].Outcome != jobs.Complete {
		t.Errorf("%+v, %v; want it complete", report, err)
	}
}
