package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

func (a *app) execCommand() *cobra.Command {
	var caller quota.Caller
	var key string
	cmd := &cobra.Command{
		Use:   "exec [flags] -- PROGRAM [ARGUMENT…]",
		Short: "Run one program behind a gateway of its own",
		Long: `Exec runs a program that finds a gateway in its environment: RATION_URL, and
RATION_TOKEN, which it sends as Authorization: Bearer or in the header
Ration-Token. Both end with the program, so a crontab needs no daemon. It needs
only costs.yaml. docs/gateway.md describes the gateway.

The program's calls are attributed to what the flags say, whatever its requests
say. Without a flag they may say it themselves; otherwise the job is the
program's name and the lane manual. Streams are the program's own, and signals
are passed on.

The exit code is the program's, and 128 and the number of the signal if one
ended it. If the program failed after one of its calls was refused, by a budget,
a cooldown or the upstream's own quota, the exit code is 75, and stderr says
when to try again (-q: it does not). If the ledger failed, and granted no call
afterwards, it is that of the ledger's error, which stderr says.

` + exitCodes(exitStopped, exitLedger, exitConfig) + `
  126 the program cannot be run
  127 there is no such program`,
		Example: `  ration exec --region IN -- ./fetch.py --market IN
  ration exec --job nightly --lane cron -- sh -c \
    'echo "Ration-Token: $RATION_TOKEN" |
     curl -fsS -H @- "$RATION_URL/to/api.example.com/v1/items"'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.exec(cmd.Context(), args, caller, key)
		},
	}
	cmd.Flags().SetInterspersed(false)
	a.defineCaller(cmd.Flags(), &caller, "")
	a.defineKey(cmd.Flags(), &key)
	a.defineShare(cmd.Flags())
	return cmd
}

// programError is a program's exit code. The program has said what is wrong.
type programError struct{ code int }

func (e *programError) Error() string { return fmt.Sprintf("exit status %d", e.code) }

func (a *app) exec(ctx context.Context, args []string, caller quota.Caller, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	path, err := command.Find(args[0])
	if err != nil {
		return err
	}
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	if caller, err = a.callerOf(table, caller); err != nil {
		return err
	}
	if err := a.setup().CheckCredentials(table); err != nil {
		return err
	}
	c, err := a.setup().Open(table, true)
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := a.setup().OpenPrivateGateway()
	if err != nil {
		return err
	}
	defer d.Release(c)
	defer d.Close()
	d.Use(c)
	session := d.NewSession(caller, quota.Caller{Lane: quota.LaneManual, Job: filepath.Base(args[0])}, key)
	a.secrets.Hide(session.Token)
	environ, err := a.setup().SessionEnvironment(d, session)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 10)
	signal.Notify(signals, command.PassedOn(signal.Ignored(syscall.SIGHUP))...)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	program := &exec.Cmd{Path: path, Args: args, Stdin: a.stdin,
		Stdout: a.plain[0], Stderr: a.plain[1], Env: environ}
	told, err := command.Foreground(program, signals)
	return describeExit(ctx, args[0], err, told, session)
}

// describeExit returns the error of a program that ended with err. If the
// program failed after a call was refused, or not decided by its ledger, that
// is why, unless a signal ended it.
func describeExit(ctx context.Context, name string, err error, told bool, session *gateway.Session) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	if code := command.SignalCode(exit.ProcessState); code > 0 {
		return &reported{&programError{code}}
	}
	if refused := session.Refused(context.WithoutCancel(ctx)); refused != nil && !told {
		reason := "a call was refused"
		if !errors.Is(refused, quota.ErrRefused) {
			reason = "its ledger failed"
		}
		return fmt.Errorf("%s failed (exit %d) after %s: %w", human.Name(filepath.Base(name)), exit.ExitCode(), reason,
			refused)
	}
	return &reported{&programError{exit.ExitCode()}}
}
