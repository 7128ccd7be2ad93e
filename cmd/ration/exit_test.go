package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
)

// TestBusyEndsForGood: a file that others keep busy ends a command with the
// code after which cron and the unit that ships resume it. The configuration
// is fine.
func TestBusyEndsForGood(t *testing.T) {
	for _, test := range []struct {
		err  error
		exit int
		kind string
	}{
		{&catalog.FileError{Path: "catalog.db", Reason: catalog.ErrBusy, Cause: errors.New("database is locked")}, exitStopped, "busy"},
		{quota.ErrLedgerBusy, exitStopped, "busy"},
		{&catalog.FileError{Path: "catalog.db", Reason: catalog.ErrDisk}, exitFailed, "failed"},
		{&catalog.FileError{Path: "catalog.db", Reason: catalog.ErrNewer}, exitConfig, "config"},
		{quota.ErrLedgerDown, exitLedger, "ledger"},
	} {
		if exit, kind := code(fmt.Errorf("open: %w", test.err)); exit != test.exit || kind != test.kind {
			t.Errorf("%v: exit %d, %s; want %d, %s", test.err, exit, kind, test.exit, test.kind)
		}
	}
}
