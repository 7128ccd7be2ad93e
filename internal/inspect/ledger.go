package inspect

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Ledger describes a ledger and its logs, for JSON.
type Ledger struct {
	At         time.Time          `json:"at"`
	Address    string             `json:"ledger"`
	Exists     bool               `json:"ledger_exists"`
	Size       *int64             `json:"size_bytes"` // of a file; null elsewhere
	Unrecorded quota.Units        `json:"unrecorded_units"`
	Accounts   []*usage.LogReport `json:"accounts"`
}

// NewLedger returns a Ledger that does not exist.
func NewLedger(at time.Time) *Ledger { return &Ledger{At: at.UTC(), Accounts: []*usage.LogReport{}} }

// Read reads the logs of a client's accounts.
func (r *Ledger) Read(ctx context.Context, c *client.Client) error {
	r.Exists = true
	for _, account := range c.Table().Accounts() {
		at, _, err := c.Guard().Now(ctx, account)
		if err != nil {
			return err
		}
		r.At = at
		log, err := usage.Log(ctx, c.Guard(), account)
		if err != nil {
			return err
		}
		r.Accounts = append(r.Accounts, log)
	}
	r.Size = fileSize(c.LedgerName())
	return nil
}

// fileSize returns the size of a ledger that is a file, with its write-ahead
// log, or nil for one that is a server.
func fileSize(ledger string) *int64 {
	path, ok := strings.CutPrefix(ledger, "sqlite:")
	if !ok {
		return nil
	}
	var sum int64
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			sum += info.Size()
		}
	}
	return &sum
}

// Drift says what was recorded late.
func (r *Ledger) Drift() (drift []string) {
	for _, l := range r.Accounts {
		units := usage.Drift{Corrected: l.ReconciledUnits, Reported: l.ReportedUnits}.Text("units")
		calls := usage.Drift{Corrected: l.ReconciledCalls, Reported: l.ReportedCalls}.Text("calls")
		for _, found := range []string{units, calls} {
			if found != "" {
				drift = append(drift, fmt.Sprintf("%s: found missing, and entered: %s", human.Name(l.Account), found))
			}
		}
	}
	if r.Unrecorded > 0 {
		drift = append(drift, fmt.Sprintf("%s %s sent within the allowance while the ledger was down",
			human.Count(r.Unrecorded, "unit"), human.Was(r.Unrecorded)))
	}
	return drift
}
