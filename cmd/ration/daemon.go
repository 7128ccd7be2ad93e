package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/daemon"
)

// daemonOptions returns what serve and proxy need of this process, and what
// ends their use of it.
func (a *app) daemonOptions(grace time.Duration) (*daemon.Options, func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	return &daemon.Options{Setup: a.setup(), Hangup: hangup, Grace: grace, Logger: a.logger, Message: message,
			IsDown: isLedgerError, Listening: a.sayListening},
		func() { signal.Stop(hangup) }
}

// sayListening says on stderr that a gateway accepts requests.
func (a *app) sayListening(log *slog.Logger, url string) {
	if a.json {
		log.Info("listening", "url", url, "version", cli.ReadBuild().Version)
		return
	}
	fmt.Fprintf(a.stderr, "ration: listening on %s (version %s)\n", url, cli.ReadBuild().Version)
}

// whyStopped names the signal as people do who send it.
func whyStopped(ctx context.Context) string {
	stop, ok := errors.AsType[*signalError](context.Cause(ctx))
	if !ok {
		return message(context.Cause(ctx))
	}
	return "told to stop (" + stop.name() + ")"
}

// logger writes to stderr as it is now: without the secrets known by now.
func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	switch {
	case a.quiet:
		level = slog.LevelWarn
	case a.verbose:
		level = slog.LevelDebug
	}
	return cli.NewLogger(a.stderr, level, a.json)
}
