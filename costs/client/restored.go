package client

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Restoration is what this host gave back to a ledger that lacked it.
type Restoration struct {
	Ledger  string      `json:"ledger"` // as LedgerName returns it
	Account string      `json:"account"`
	At      time.Time   `json:"at"`   // on this host's clock
	Lost    bool        `json:"lost"` // the ledger had lost records; otherwise it had been down
	Records int         `json:"entries"`
	Units   quota.Units `json:"units"` // of these
}

// String says what was restored.
func (r *Restoration) String() string {
	if r.Lost {
		return fmt.Sprintf("the ledger of account %s had lost records: this host restored %s of %s; "+
			"other hosts restore their own when they return",
			human.Name(r.Account), human.Count(r.Records, "record"), human.Count(r.Units, "unit"))
	}
	return fmt.Sprintf("account %s: what was spent while the ledger was down is recorded now: %s",
		human.Name(r.Account), human.Count(r.Units, "unit"))
}

// RestoredError says that this host restored what the ledger lacked.
type RestoredError struct{ Restoration }

// Error says what was restored.
func (e *RestoredError) Error() string { return e.String() }

const (
	restoredFile = "restored.json"
	maxRestored  = 20
	restoredSpan = 24 * time.Hour
)

// restorations are those of a Client. It is safe for concurrent use.
type restorations struct {
	mu    sync.Mutex
	times map[string]int // by account
	sums  map[string]int // of records, by account
}

func (r *restorations) count(account string) (times, records int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[account], r.sums[account]
}

// noteRestored reports a restoration and keeps it in the state folder. What
// another process keeps at the same time may be lost.
func (c *Client) noteRestored(of engine.Restoration) {
	now := c.now().UTC()
	done := Restoration{
		Ledger: c.name, Account: of.Account, At: now,
		Lost: of.Lost, Records: of.Records, Units: quota.Units(of.Units),
	}
	r := &c.restored
	r.mu.Lock()
	if r.times == nil {
		r.times, r.sums = map[string]int{}, map[string]int{}
	}
	r.times[of.Account]++
	r.sums[of.Account] += of.Records
	c.keepRestorations(append(c.keptRestorations(), done))
	r.mu.Unlock()
	c.report(quota.Call{}, &RestoredError{done})
}

// keepRestorations writes the last ones to the state folder. It is best effort.
func (c *Client) keepRestorations(all []Restoration) {
	if c.state == "" {
		return
	}
	all = all[max(0, len(all)-maxRestored):]
	if text, err := json.Marshal(all); err == nil && files.MkdirAll(c.state) == nil {
		_ = files.Replace(filepath.Join(c.state, restoredFile), append(text, '\n'), false)
	}
}

// forgetRestorations drops those of an account, whose loss was accepted.
func (c *Client) forgetRestorations(account string) {
	c.restored.mu.Lock()
	defer c.restored.mu.Unlock()
	isAccepted := func(r Restoration) bool { return r.Ledger == c.name && r.Account == account }
	if all := c.keptRestorations(); slices.ContainsFunc(all, isAccepted) {
		c.keepRestorations(slices.DeleteFunc(all, isAccepted))
	}
}

// keptRestorations returns those of all ledgers that the state folder has.
func (c *Client) keptRestorations() (all []Restoration) {
	text, err := files.ReadFile(filepath.Join(c.state, restoredFile), maxStateFile)
	if c.state != "" && err == nil {
		_ = json.Unmarshal(text, &all) // a malformed file is ignored
	}
	return all
}

// Restorations returns what this host gave back to the ledger in the last
// 24 hours, oldest first.
func (c *Client) Restorations() []Restoration {
	recent := []Restoration{}
	for _, r := range c.keptRestorations() {
		if r.Ledger == c.name && c.now().Sub(r.At) < restoredSpan {
			recent = append(recent, r)
		}
	}
	return recent
}
