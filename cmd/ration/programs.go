package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ration-dev/ration/cmd/ration/internal/bars"
	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/jobs"
)

// programEnvironment returns the environment of the programs in regions.yaml: that
// of ration, in which ration spend finds the same files and ledger although they
// run in another folder.
func (a *app) programEnvironment() ([]string, error) {
	config, err := a.configFile("costs.yaml")
	if err != nil {
		return nil, err
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	whole := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(here, path)
	}
	ledger := a.env(a.ledgerURL, "RATION_LEDGER")
	if file, ok := strings.CutPrefix(ledger, "sqlite:"); ok {
		ledger = "sqlite:" + whole(file)
	}
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { // what systemd tells serve alone
		return strings.HasPrefix(variable, "NOTIFY_SOCKET=") || strings.HasPrefix(variable, "WATCHDOG_")
	})
	for _, variable := range [][2]string{
		{"RATION_CONFIG", whole(filepath.Dir(config))},
		{"RATION_STATE", whole(a.env(a.stateDir, "RATION_STATE"))},
		{"RATION_JOURNAL", whole(a.getenv("RATION_JOURNAL"))},
		{"RATION_LEDGER", ledger},
		{"RATION_ENDPOINT", a.env(a.endpoint, "RATION_ENDPOINT")},
	} {
		if name, value := variable[0], variable[1]; value != "" {
			env = append(env, name+"="+value)
		}
	}
	return withoutProxy(env), nil
}

// outputTo returns what gets the output of programs in run: lines on stderr,
// above the bars if there are any.
func (a *app) outputTo(shown *bars.Bars) func(jobs.Line) {
	switch {
	case a.quiet:
		return nil
	case a.json:
		return logOutput(a.logger())
	case shown.Shown():
		return func(l jobs.Line) { shown.Log(redact.Text(a.stderr, outputText(l))) }
	}
	out := &lockedWriter{out: a.stderr}
	return func(l jobs.Line) { fmt.Fprintln(out, outputText(l)) }
}

func outputText(l jobs.Line) string {
	return l.Region + " " + l.Job + ": " + redact.URLs(l.Text)
}

// lockedWriter lets one goroutine write at a time.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements io.Writer.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// logOutput returns a function that logs the output of programs.
func logOutput(log *slog.Logger) func(jobs.Line) {
	return func(l jobs.Line) { log.Info("output", "region", l.Region, "job", l.Job, "line", l.Text) }
}
