package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// The exit codes of every command.
const (
	exitDone    = 0
	exitFailed  = 1
	exitMisfit  = 3 // plan: it does not fit
	exitUsage   = 64
	exitLedger  = 69                  // the ledger is down and the call was refused
	exitStopped = command.StoppedCode // a budget, a cooldown or a busy ledger stopped it; resume later
	exitConfig  = 78
	exitSignal  = 128 // and the signal's number
)

// exitCodes returns the part of a command's help about its exit codes. The
// codes for usage, signals and failures apply to every command; others are
// added to them.
func exitCodes(others ...int) string {
	lines := []string{"Exit codes:", "  0   done"}
	stopped := "  75  stopped by a budget or cooldown, or the ledger is busy; resume later"
	if slices.Contains(others, exitLedger) && !slices.Contains(others, exitStopped) {
		others, stopped = append(others, exitStopped), "  75  the ledger is busy; try again"
	}
	if slices.Contains(others, exitMisfit) {
		lines[1] = "  0   it fits"
	}
	for _, line := range []struct {
		code int
		says string
	}{
		{exitMisfit, "  3   it does not fit, even if --suggest finds a schedule that does"},
		{exitStopped, stopped},
		{exitLedger, "  69  the ledger is down"},
		{exitConfig, "  78  configuration, or a cost above a limit"},
	} {
		if slices.Contains(others, line.code) {
			lines = append(lines, line.says)
		}
	}
	return strings.Join(append(lines, "  64  usage", "  130 SIGINT, 143 SIGTERM", "  1   anything else"), "\n")
}

// reported is an error that the command has printed; its exit code is left.
type reported struct{ err error }

func (e *reported) Error() string { return e.err.Error() }
func (e *reported) Unwrap() error { return e.err }

// code is the one switch from an error to an exit code, and to the kind that
// JSON errors carry.
func code(err error) (exit int, kind string) {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	switch {
	case err == nil:
		return exitDone, ""
	case as[*signalError](err):
		stopped, _ := errors.AsType[*signalError](err)
		return exitSignal + int(stopped.signal), "interrupted"
	case as[*programError](err):
		program, _ := errors.AsType[*programError](err)
		return program.code, "program"
	case as[*command.StartError](err):
		start, _ := errors.AsType[*command.StartError](err)
		return start.Code, "program"
	case as[misfitError](err):
		return exitMisfit, "misfit"
	case as[*cli.Error](err), as[*usage.RejectedError](err), is(catalog.ErrEmptyQuery):
		return exitUsage, "usage"
	case is(quota.ErrLedgerBusy, catalog.ErrBusy):
		return exitStopped, "busy"
	case is(catalog.ErrDisk):
		return exitFailed, "failed"
	case as[*client.ConfigError](err), as[*strictyaml.Error](err), as[*catalog.FileError](err),
		is(files.ErrUnsafe, quota.ErrNeverFits, quota.ErrLedgerConfig, quota.ErrBadCall, costs.ErrNoRoute,
			costs.ErrNoCost, costs.ErrManyUpstreams, jobs.ErrNoQuota, jobs.ErrKey):
		return exitConfig, "config"
	case client.IsDown(err):
		return exitLedger, "ledger"
	case is(quota.ErrRefused, quota.ErrCorrecting), as[*jobs.StoppedError](err), as[*usage.BoundaryError](err):
		return exitStopped, "refused"
	case strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "unknown help topic"):
		return exitUsage, "usage" // cobra has no type for it
	}
	return exitFailed, "failed"
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// exit prints an error, unless it has been printed, and returns its exit code.
func (a *app) exit(err error) int {
	if c := a.setup().Client; c != nil {
		c.RepeatRefusal(err) // for why
	}
	exit, kind := code(err)
	isQuietStop := a.quiet && exit == exitStopped
	if err == nil || as[*reported](err) || isQuietStop {
		return exit
	}
	text := message(err)
	if exit == exitLedger {
		text += a.unrecordedNote()
	}
	if !a.json {
		fmt.Fprintln(a.stderr, "ration:", text)
		return exit
	}
	_ = json.NewEncoder(a.stderr).Encode(map[string]any{"error": map[string]any{
		"kind": kind, "message": text, "retry_at": human.OptionalTime(jobs.RetryAt(err)),
	}})
	return exit
}

// message is what is said of an error. Mistakes in a file are one a line.
func message(err error) string {
	stopped, ok := errors.AsType[*signalError](err)
	if ok && stopped.signal == syscall.SIGINT && !as[*replica.UnfinishedError](err) {
		return "interrupted"
	}
	text := cli.RedactMessage(err.Error())
	if exit, _ := code(err); exit == exitUsage { // it repeats what was typed
		text = strictyaml.Redact(text)
	}
	return text
}
