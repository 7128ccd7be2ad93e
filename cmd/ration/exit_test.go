package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota"
)

// TestABusyFileEndsWithTheCodeOfAStop: a file that others keep busy ends a
// command with the code after which cron and the unit that ships resume it. The
// configuration is fine.
func TestABusyFileEndsWithTheCodeOfAStop(t *testing.T) {
	for _, test := range []struct {
		err  error
		exit int
		kind string
	}{
		{&catalog.FileError{Path: "catalog.db", Reason: catalog.ErrBusy, Cause: errors.New("database is locked")},
			exitStopped, "busy"},
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

// TestAnInterruptedCopySaysWhatStaysClosed: a copy that was interrupted leaves
// an account closed in both ledgers, and said "interrupted".
func TestAnInterruptedCopySaysWhatStaysClosed(t *testing.T) {
	err := &replica.UnfinishedError{Account: "p", Err: fmt.Errorf("ledger: %w", &signalError{syscall.SIGINT})}
	const want = `ledger: stopped by SIGINT; account "p" stays closed in both ledgers until the copy is complete: ` +
		`run the same command again`
	if exit, _ := code(err); exit != 130 || message(err) != want {
		t.Errorf("exit %d, %s; want 130, %s", exit, message(err), want)
	}
}

// TestLostOutputIsAFailure: a command whose output could not be written, as on
// a full disk, must not end like one that has printed it.
func TestLostOutputIsAFailure(t *testing.T) {
	readOnly, err := os.Open(filepath.Join("..", "..", "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	folder := t.TempDir()
	run := func(command string) (exit int, stderr string) {
		var text bytes.Buffer
		c := &commandLine{stdout: readOnly, stderr: &text,
			getenv: environment([]string{"RATION_STATE=" + folder, "RATION_JOURNAL=" + folder})}
		exit = c.run(append([]string{"--config", filepath.Join("..", ".."), "--ledger",
			"sqlite:" + filepath.Join(folder, "ration.db")}, strings.Fields(command)...)...)
		return exit, text.String()
	}
	if exit, stderr := run("spend videos.list"); exit != exitDone { // it prints nothing
		t.Fatal(exit, stderr)
	}
	for _, command := range []string{"costs", "costs --json", "costs presets", "status", "doctor", "cooldown list",
		"ledger info", "log --csv", "metrics", "metrics --out " + folder,
		"metrics --out " + filepath.Join(folder, "none", "x"), "why", "version", "--help", "help log"} {
		exit, stderr := run(command)
		if exit != exitFailed || strings.Count(stderr, "write ") != 1 || strings.Contains(stderr, "ledger") {
			t.Errorf("%s: exit %d, stderr %q; want %d and that its output was not written, whatever the ledger",
				command, exit, stderr, exitFailed)
		}
	}
	var stderr bytes.Buffer
	if exit := (&commandLine{stdout: readOnly, stderr: &stderr,
		getenv: environment([]string{"RATION_STATE=" + folder})}).run("help", "nothing"); exit != exitUsage {
		t.Errorf("help of an unknown command: exit %d, stderr %q; want %d", exit, stderr.String(), exitUsage)
	}
}
