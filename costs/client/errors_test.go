package client_test

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// TestAFilesErrorNamesTheLedgerToo: the error of a file that is joined to one
// of the ledger left that without its name.
func TestAFilesErrorNamesTheLedgerToo(t *testing.T) {
	full := error(&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC})
	down := fmt.Errorf("%w: redis at redis.internal:6379: refused", quota.ErrLedgerDown)
	for _, c := range []struct {
		err  error
		want string
	}{
		{full, "write /dev/stdout: no space left on device"},
		{fmt.Errorf("log: %w", full), "log: write /dev/stdout: no space left on device"},
		{down, "quota: ledger down: redis at redis.internal:6379: refused (ledger redis://redis.internal:6379/4)"},
		{errors.Join(full, down),
			"write /dev/stdout: no space left on device\nquota: ledger down: redis at redis.internal:6379: refused " +
				"(ledger redis://redis.internal:6379/4)"},
		{errors.Join(down, full),
			"quota: ledger down: redis at redis.internal:6379: refused (ledger " +
				"redis://redis.internal:6379/4)\nwrite /dev/stdout: no space left on device"},
		{fmt.Errorf("%w, and %w", down, full),
			"quota: ledger down: redis at redis.internal:6379: refused, " +
				"and write /dev/stdout: no space left on device"},
	} {
		named := client.NameLedger(c.err, "redis://redis.internal:6379/4")
		if named.Error() != c.want || errors.Is(named, quota.ErrLedgerDown) != errors.Is(c.err, quota.ErrLedgerDown) {
			t.Errorf("%q: %q; want %q", c.err, named, c.want)
		}
	}
}
