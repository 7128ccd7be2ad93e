package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/engine"
)

// reportOutage reports an outage once a call was granted without the ledger,
// and its end. The error that ends the command reports an outage without
// such a call.
func (a *app) reportOutage(err error) {
	if outage, ok := errors.AsType[*client.OutageError](err); ok && outage.Units > 0 {
		a.warn("ledger", a.setup().Client.DescribeOutage(outage))
	}
}

// warn prints a warning to stderr, whatever -q says. kind is for programs:
// docs/operating.md lists them.
func (a *app) warn(kind, text string) {
	text = cli.RedactMessage(text)
	if !a.json {
		fmt.Fprintln(a.stderr, "ration:", text)
		return
	}
	_ = json.NewEncoder(a.stderr).Encode(map[string]any{"warning": map[string]any{"kind": kind, "message": text}})
}

// remark prints what a document or table leaves out to stderr: for programs as
// a warning, for people as a plain line.
func (a *app) remark(kind, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); a.json {
		a.warn(kind, text)
	} else {
		fmt.Fprintln(a.stderr, text)
	}
}

// warnOfLoss warns if the ledger is gone and this host knows calls on it, or if
// this host's copy of it cannot say. That a ledger is down is the command's own
// error.
func (a *app) warnOfLoss() (missing []*client.MissingError) {
	if a.hasAt {
		return []*client.MissingError{}
	}
	missing, err := a.setup().Known().Missing()
	if err != nil && !isLedgerError(err) {
		a.warn("replica", err.Error())
	}
	for _, loss := range missing {
		a.warn("loss", loss.Error())
	}
	return missing
}

// warnOfSpelling warns if the ledger has an account under another spelling.
func (a *app) warnOfSpelling(ctx context.Context, c *client.Client) {
	if err := c.CheckSpelling(ctx); as[*engine.LookAlikeError](err) {
		a.warn("config", client.NameLedger(err, c.LedgerName()).Error())
	}
}
