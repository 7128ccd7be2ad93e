package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota"
)

// ReplicaError says that this host's copy of the ledger could not be read or
// written. The ledger has the calls.
type ReplicaError struct{ Err error }

// Error says what is at stake.
func (e *ReplicaError) Error() string {
	return fmt.Sprintf("%v; this host cannot restore what its copy lacks, if the ledger loses it", e.Err)
}

// Unwrap returns Err.
func (e *ReplicaError) Unwrap() error { return e.Err }

// openReplica opens this host's copy of the ledger, if there is a folder for
// it. If creates is false, it creates none. A folder that another user can
// write to is an error. If the folder cannot be made, calls go on without
// a copy.
func (c *Client) openReplica(creates bool) error {
	folder := c.options.replicaFolder()
	if folder == "" {
		return nil
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) && !creates {
		return nil
	}
	r, err := replica.Open(folder, &replica.Options{
		Ledger: replicaName(c.name), Keep: c.keep, Now: c.options.Now, Report: c.reportReplica,
	})
	if errors.Is(err, files.ErrUnsafe) {
		return err
	}
	if err != nil {
		c.report(quota.Call{}, &ReplicaError{fmt.Errorf("this host's copy of the ledger: %w; calls go on without it",
			err)})
		return nil
	}
	c.replica, c.made = r, c.now()
	for _, account := range c.table.Accounts() {
		known, _ := c.newest(account)
		c.knows = c.knows || !known.IsZero()
	}
	return nil
}

// reportReplica reports a failure of the replica in the background, since the
// replica is locked meanwhile.
func (c *Client) reportReplica(err error) {
	c.background.begin(func() { c.report(quota.Call{}, &ReplicaError{err}) })
}

// backgroundReports are the reports that a Client makes in the background.
type backgroundReports struct {
	mu       sync.Mutex
	isClosed bool
	running  sync.WaitGroup
}

func (b *backgroundReports) begin(report func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isClosed {
		go report()
		return
	}
	b.running.Go(report)
}

// wait waits for the reports that have begun, until ctx ends.
func (b *backgroundReports) wait(ctx context.Context) {
	b.mu.Lock()
	b.isClosed = true
	b.mu.Unlock()
	done := make(chan struct{})
	go func() {
		b.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// keep returns how far back the windows of an account see.
func (c *Client) keep(account string) time.Duration {
	longest := c.table.History()[account]
	for _, b := range c.table.Budgets() {
		if b.Account == account {
			longest = max(longest, b.Horizon())
		}
	}
	return engine.Retention(longest)
}

// newest returns the time of the newest batch of an account that the replica
// has; the zero time if there is none.
func (c *Client) newest(account string) (time.Time, error) {
	if c.replica == nil {
		return time.Time{}, nil
	}
	epoch, _, at, err := c.replica.Newest(account)
	if epoch == 0 || err != nil {
		return time.Time{}, err
	}
	return at.UTC(), nil
}

// HostEnv is the environment variable with the name of this host, in place of
// the system's, which in a container is chance.
const HostEnv = "RATION_HOST"

// Host returns the name of this host, which its records carry.
func (c *Client) Host() string { return HostName(c.options.Getenv) }

// HostName returns the name of this host: HostEnv, or that of the system.
func HostName(getenv func(string) string) string {
	host, _ := os.Hostname()
	return cmp.Or(getenv(HostEnv), host)
}

// logOptions returns the options of a log on the ledger.
func (c *Client) logOptions() *quota.Options {
	o := &quota.Options{Host: c.Host(), Restored: c.noteRestored,
		Priority: c.table.Priority, Paced: c.table.Paced(), MaxShare: c.options.MaxShare}
	if c.replica != nil {
		o.Replica = c.replica
		in := "when_ledger_down of costs.yaml"
		if !hasDownRules(c.table) {
			in = "costs.yaml, which has no when_ledger_down"
		}
		o.Allowance = &quota.Allowance{Limit: c.table.Allowance, In: in, Granted: c.outages.granted, Now: c.options.Now}
	}
	return o
}

// Offline returns a Client for a ledger that does not exist or is not opened.
// It has no Guard and sends nothing: only LedgerName, Unrecorded, Restorations,
// Missing and CheckEmpty may be called, which ask the replica and the state
// folder.
func Offline(table *costs.Table, o *Options) *Client {
	c := &Client{table: table, options: o.withDefaults(), name: LedgerName(table, o)}
	c.state, _ = c.options.stateFolder()
	c.outages = c.newOutages()
	if err := c.openReplica(false); err != nil {
		c.report(quota.Call{}, &ReplicaError{err})
	}
	return c
}

// Unrecorded returns the units that all processes of this host have sent within
// the allowance in the last 24 hours, and that the ledger is not known to hold.
// It may be called after Close.
func (c *Client) Unrecorded() (sum quota.Units, err error) {
	for _, account := range c.table.Accounts() {
		units, err := c.unrecorded(account)
		if err != nil {
			return 0, err
		}
		sum += units
	}
	return sum, nil
}

func (c *Client) unrecorded(account string) (units quota.Units, err error) {
	_, units, err = c.grantedDown(account)
	return units, err
}

// grantedDown returns what this host has spent of the allowance of an account,
// and how much of that the ledger is not known to hold.
func (c *Client) grantedDown(account string) (used, unrecorded quota.Units, err error) {
	if c.replica == nil {
		return 0, 0, nil
	}
	all, lacking, err := c.replica.GrantedDown(account, c.now())
	return quota.Units(all), quota.Units(lacking), err
}

func (c *Client) now() time.Time {
	if c.options.Now != nil {
		return c.options.Now()
	}
	return time.Now()
}

// owes reports whether the ledger lacks calls of this host, as far as is known.
func (c *Client) owes(account string) bool {
	units, err := c.unrecorded(account)
	return err == nil && units > 0
}

// HostStats are what a host knows of an account beside its log.
type HostStats struct {
	Unrecorded   quota.Units // spent while the ledger was down, and not known to be in it
	Failing      bool        // the host's copy of the log could not be read or written
	Restorations int         // how often this process restored what the ledger lacked
	Restored     int         // the records that it restored
}

// HostStats returns what this host knows of an account beside its log.
func (c *Client) HostStats(account string) (s HostStats, err error) {
	s.Restorations, s.Restored = c.restored.count(account)
	if c.replica != nil {
		s.Failing = c.replica.Err() != nil
	}
	s.Unrecorded, err = c.unrecorded(account)
	return s, err
}

// MissingError says that the ledger of an account lacks what this host knows:
// it is gone.
type MissingError struct {
	Account string    `json:"account"`
	Granted time.Time `json:"granted_at"` // when the newest of its records was
}

// Error says what follows.
func (e *MissingError) Error() string {
	return fmt.Sprintf("account %s: the ledger has forgotten what this host knows of it, last of %s, "+
		"so more is shown as left than is; the next call restores it, unless ration ledger accept --loss starts over",
		human.Name(e.Account), human.Time(e.Granted))
}

// Missing returns a *MissingError for each account that this host knows, if the
// ledger does not exist, in the order of costs.yaml. A ledger that exists gets
// back what it lacks when it is read.
func (c *Client) Missing() (all []*MissingError, err error) {
	all = []*MissingError{}
	if c.guard != nil {
		return all, nil
	}
	for _, account := range c.table.Accounts() {
		at, err := c.newest(account)
		if err != nil {
			return all, err
		}
		if !at.IsZero() && c.now().Sub(at) < c.keep(account) {
			all = append(all, &MissingError{account, at})
		}
	}
	return all, nil
}

// CheckReplica returns an error if the copy of this host knew nothing when the
// Client was made, and the ledger had calls: on a new host, or one that has
// lost its copy, such as a container with an empty volume.
func (c *Client) CheckReplica(ctx context.Context) error {
	if c.knows || c.replica == nil {
		return nil
	}
	if empty, err := c.isEmpty(ctx, c.made); empty || err != nil {
		return nil
	}
	return fmt.Errorf("this host's copy of the ledger knew none of the calls on %s: if this host is not new, "+
		"its copy was lost, and so is what it could restore of them; give it a folder that stays (RATION_JOURNAL)",
		c.name)
}
