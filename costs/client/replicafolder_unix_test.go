//go:build unix

package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// reports keeps what clients report.
type reports struct {
	mu  sync.Mutex
	all []error
}

func (r *reports) add(_ quota.Call, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
}

// replicas returns the failures of the replica.
func (r *reports) replicas() (failures []*client.ReplicaError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.all {
		if failure, ok := errors.AsType[*client.ReplicaError](err); ok {
			failures = append(failures, failure)
		}
	}
	return failures
}

// checkFailures fails unless the replica's failures were reported, with their
// cause and what follows.
func (r *reports) checkFailures(t *testing.T, cause string) {
	t.Helper()
	failures := r.replicas()
	if len(failures) == 0 {
		t.Fatalf("%v; want that the copy fails", r.all)
	}
	for _, failure := range failures {
		if text := failure.Error(); !strings.Contains(text, cause) || !strings.Contains(text, "cannot restore") {
			t.Errorf("%s; want %s, and what follows", text, cause)
		}
	}
}

// TestCallsGoOnWithoutAReplica: its folder cannot be made, or is full, or is
// removed while it is used. The failure is reported, and nothing is granted
// without the ledger that could not be counted.
func TestCallsGoOnWithoutAReplica(t *testing.T) {
	for name, c := range map[string]struct {
		cause string
		spoil func(*testing.T, *stand) // before the client is opened
		later func(*testing.T, *stand) // after a call
	}{
		"cannot be made": {"not a directory", func(t *testing.T, s *stand) {
			if err := os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.options.Replica = filepath.Join(s.dir, "file", "replica")
		}, nil},
		"removed": {"no such file or directory", nil, func(t *testing.T, s *stand) {
			if err := os.RemoveAll(s.options.Replica); err != nil {
				t.Fatal(err)
			}
		}},
		"a file is in the way": {"", nil, func(t *testing.T, s *stand) {
			if err := errors.Join(os.RemoveAll(s.options.Replica),
				os.WriteFile(s.options.Replica, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newStand(t, ""), &reports{}
			s.options.Report, s.options.Replica = r.add, filepath.Join(s.dir, "replica")
			if c.spoil != nil {
				c.spoil(t, s)
			}
			opened := s.open()
			for i := range 3 {
				if err := get(opened, "get"); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				if c.later != nil {
					c.later(t, s)
				}
			}
			_, _ = opened.Unrecorded()
			_ = opened.LedgerState()
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
			r.checkFailures(t, c.cause)
			_, _ = opened.Unrecorded() // after Close
		})
	}
}

// TestNothingIsGrantedThatCannotBeCounted: the ledger is down, and the copy of
// this host is gone.
func TestNothingIsGrantedThatCannotBeCounted(t *testing.T) {
	s := newStand(t, "ledger: redis://127.0.0.1:1/0\n")
	s.options.Report, s.options.Replica = (&reports{}).add, filepath.Join(s.dir, "replica")
	c := s.open()
	if err := os.RemoveAll(s.options.Replica); err != nil {
		t.Fatal(err)
	}
	if err := get(c, "get"); !errors.Is(err, quota.ErrLedgerDown) ||
		!strings.Contains(err.Error(), "cannot be counted without the ledger") {
		t.Errorf("%v; want that it cannot be counted", err)
	}
}

// TestUnsafeReplicaIsRefused: another user could put calls into the copy, or
// take them out.
func TestUnsafeReplicaIsRefused(t *testing.T) {
	s := newStand(t, "")
	s.options.Replica = filepath.Join(s.dir, "replica")
	if err := errors.Join(os.Mkdir(s.options.Replica, 0o700), os.Chmod(s.options.Replica, 0o777)); err != nil {
		t.Fatal(err)
	}
	_, err := client.Open(filepath.Join(s.dir, "costs.yaml"), &s.options)
	_, isConfig := errors.AsType[*client.ConfigError](err)
	if !isConfig || !errors.Is(err, files.ErrUnsafe) || !strings.Contains(err.Error(), s.options.Replica) {
		t.Errorf("%v; want a ConfigError that names the folder", err)
	}
}

// TestStateFolderMayBeReadOnly: status and calls work, and the outage of the
// ledger is still reported.
func TestStateFolderMayBeReadOnly(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write to it")
	}
	s, r := newStand(t, "ledger: sqlite:ration.db\n"), &reports{}
	s.options.Report = r.add
	if err := os.Mkdir(s.options.State, 0o500); err != nil {
		t.Fatal(err)
	}
	c := s.open()
	if err := get(c, "get"); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	r.checkFailures(t, "permission denied")
}

// TestProcessesShareAReplica: each knows what the other has spent, also if it
// grants calls while the ledger is down.
func TestProcessesShareAReplica(t *testing.T) {
	s := newStand(t, "ledger: redis://127.0.0.1:1/0\n")
	s.options.Report = (&reports{}).add
	first, second := s.open(), s.open()
	for i, c := range []*client.Client{first, second, first, second} { // two units are allowed
		if err := get(c, "get"); (err == nil) != (i < 2) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	for _, c := range []*client.Client{first, second} {
		if units, err := c.Unrecorded(); err != nil || units != 2 {
			t.Errorf("%d units, %v; want two of this host", units, err)
		}
	}
	offline := client.Offline(first.Table(), &s.options)
	if units, err := offline.Unrecorded(); err != nil || units != 2 {
		t.Errorf("offline: %d units, %v; want two of this host", units, err)
	}
	if outage := offline.Outage(); outage == nil || offline.DescribeOutage(outage) == "" {
		t.Errorf("offline: %v; want the outage", outage)
	}
}

// TestOpenedLedgerWithoutAFolderKeepsNothing: and may be asked about
// everything.
func TestOpenedLedgerWithoutAFolderKeepsNothing(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(table,
		&client.Options{Opened: memledger.Open(nil), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Guard().Spend(t.Context(), quota.Call{Account: "a", Method: "get", Units: 1}); err != nil {
		t.Fatal(err)
	}
	units, err := c.Unrecorded()
	missing, missingErr := c.Missing()
	if errors.Join(err, missingErr, c.CheckReplica(t.Context()), c.CheckMove(t.Context()), c.Close()) != nil ||
		units != 0 || len(missing) != 0 {
		t.Errorf("%d units, %v, missing %v, %v; want nothing", units, err, missing, missingErr)
	}
	if stats, err := c.HostStats("a"); err != nil || stats.Failing || len(c.Restorations()) != 0 || c.Outage() != nil {
		t.Errorf("%+v, %v; want nothing", stats, err)
	}
}
