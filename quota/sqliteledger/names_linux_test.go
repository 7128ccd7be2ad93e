package sqliteledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestFileOfTwoNames: two processes opened one file by two names, as in a
// container in which the file alone is mounted. Each had a write-ahead log of
// its own, so that both were granted the limit, and one's calls were lost.
func TestFileOfTwoNames(t *testing.T) {
	for name, second := range map[string]func(path, other string) error{
		"several names": os.Link,
		"is mounted": func(path, other string) error {
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				return err
			}
			return unix.Mount(path, other, "", unix.MS_BIND, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, other := filepath.Join(t.TempDir(), "ration.db"), filepath.Join(t.TempDir(), "ration.db")
			first, err := sqliteledger.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			charge := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 1, Window: quota.Sliding(time.Hour)}
			request := quota.Request{Method: "m", Units: 1, Charges: []*quota.Charge{charge}}
			if _, err := first.Spend(t.Context(), &quota.Batch{Account: "a", Requests: []quota.Request{request}}); err != nil {
				t.Fatal(err)
			}
			if err := second(path, other); errors.Is(err, unix.EPERM) {
				t.Skip("only root can mount")
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = unix.Unmount(other, unix.MNT_DETACH) })
			opened, err := sqliteledger.Open(other, nil)
			if err == nil {
				defer opened.Close()
				_, err = opened.Spend(t.Context(), &quota.Batch{Account: "a", Requests: []quota.Request{request}})
			}
			if !errors.Is(err, quota.ErrLedgerConfig) || !strings.Contains(err.Error(), name) {
				t.Errorf("%v; want that it %s", err, name)
			}
		})
	}
}
