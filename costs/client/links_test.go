package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// TestALinkedFolderLeadsToTheSameLedger: a file that is named through a
// symbolic link to its folder is the ledger that the replica knows by its real
// name.
func TestALinkedFolderLeadsToTheSameLedger(t *testing.T) {
	s := newStand(t, "")
	real, link := filepath.Join(s.dir, "real"), filepath.Join(s.dir, "link")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, link)); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	var restored *client.RestoredError
	s.options.Report = func(_ quota.Call, err error) { errors.As(err, &restored) }
	open := func(folder string) *client.Client {
		s.options.Ledger = "sqlite:" + filepath.Join(folder, "ration.db")
		return s.open()
	}
	for range 3 {
		if err := get(open(real), "get"); err != nil {
			t.Fatal(err)
		}
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(real, "ration.db"+end)); err != nil {
			t.Fatal(err)
		}
	}
	c := open(link)
	if err := get(c, "get"); err != nil || restored == nil || restored.Units != 3 {
		t.Errorf("%v, restored %v; want the three calls", err, restored)
	}
	if balances, err := c.Guard().Balances(t.Context()); err != nil || balances[0].Used != 4 {
		t.Errorf("%+v, %v; want four calls", balances, err)
	}
}

// TestLinksToOneFileShareItsLedger: a relative ledger is in the folder of the
// file, not in those of the links to it.
func TestLinksToOneFileShareItsLedger(t *testing.T) {
	s := newStand(t, "ledger: sqlite:own.db\n")
	var c *client.Client
	for _, job := range []string{"j1", "j2"} {
		link := filepath.Join(s.dir, job, "costs.yaml")
		if err := errors.Join(os.Mkdir(filepath.Dir(link), 0o700), os.Symlink("../costs.yaml", link)); err != nil {
			t.Skip("no symbolic links here: ", err)
		}
		var err error
		if c, err = client.Open(link, &s.options); err == nil {
			defer c.Close()
			err = get(c, "get")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if balances, err := c.Guard().Balances(t.Context()); err != nil || balances[0].Used != 2 {
		t.Errorf("%+v, %v; want the calls of both", balances, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "own.db")); err != nil {
		t.Error(err)
	}
}

// TestProcessSaysThatItsReplicaWasEmpty: a container whose volume is new does
// not know what it has spent, and says so unless the ledger is empty too.
func TestProcessSaysThatItsReplicaWasEmpty(t *testing.T) {
	s := newStand(t, "")
	first := s.open()
	if err := first.CheckReplica(t.Context()); err != nil {
		t.Errorf("a new ledger: %v; want nothing", err)
	}
	if err := get(first, "get"); err != nil {
		t.Fatal(err)
	}
	if err := first.CheckReplica(t.Context()); err != nil {
		t.Errorf("after a call: %v; want nothing", err)
	}
	s.options.Replica = filepath.Join(s.dir, "other")
	second := s.open()
	if err := second.CheckReplica(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "knew none of the calls on sqlite:") {
		t.Errorf("an empty replica beside a ledger in use: %v", err)
	}
	if err := get(second, "get"); err != nil {
		t.Fatal(err)
	}
	if err := s.open().CheckReplica(t.Context()); err != nil {
		t.Errorf("the next process: %v; want nothing", err)
	}
}
