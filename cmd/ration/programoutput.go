package main

import (
	"fmt"

	"github.com/ration-dev/ration/cmd/ration/internal/bars"
	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/daemon"
)

// outputTo returns what gets the output of programs in run: lines on stderr,
// above the bars if there are any.
func (a *app) outputTo(shown *bars.Bars) func(jobs.OutputLine) {
	switch {
	case a.quiet:
		return nil
	case a.json:
		return daemon.LogOutput(a.logger())
	case shown.Shown():
		return func(l jobs.OutputLine) { shown.Log(redact.Text(a.stderr, outputText(l))) }
	}
	out := terminal.NewLocked(a.stderr)
	return func(l jobs.OutputLine) { fmt.Fprintln(out, outputText(l)) }
}

func outputText(l jobs.OutputLine) string {
	return l.Region + " " + l.Job + ": " + redact.URLs(l.Text)
}
