package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// Options returns the options by which package client finds the ledger.
func (s *Setup) Options() *client.Options {
	o := &client.Options{Ledger: s.Ledger, State: s.State, Report: s.Report, Conceal: s.Conceal, Redact: s.Redact,
		Getenv: s.Getenv}
	o.MaxShare = s.MaxShare
	o.Layer = func(inner quota.Ledger) quota.Ledger {
		s.Timer = metrics.NewLedger(inner)
		return s.Timer
	}
	if s.Fixed {
		o.Now = s.Now
	}
	return o
}

// Open opens what table names. Without create, a ledger that does not exist is
// ErrNoLedger; LedgerName and Known can be called all the same.
func (s *Setup) Open(table *costs.Table, create bool) (*client.Client, error) {
	logging.Disable() // errors say what it would write to stderr
	o := s.Options()
	o.MustExist = !create
	s.relay = &relay{report: o.Report}
	o.Report = s.relay.forward
	c, err := client.New(table, o)
	missing := errors.Is(err, sqliteledger.ErrNoLedger)
	if err != nil && !missing {
		return nil, err
	}
	s.Opened, s.Client = table, c
	if missing {
		return nil, fmt.Errorf("%w at %s: nothing was spent; the first spend or run makes it", ErrNoLedger,
			s.LedgerName())
	}
	return c, nil
}

// OpenNamed opens the ledger at an address for the budgets of a table, with
// passwords from getenv. Without create, it returns sqliteledger.ErrNoLedger
// for one that does not exist. The client is not that of s.
func (s *Setup) OpenNamed(table *costs.Table, address string, create bool, getenv func(string) string) (*client.Client,
	error) {
	logging.Disable()
	o := s.Options()
	o.Ledger = address
	o.MustExist = !create
	o.Layer = nil
	o.Getenv = getenv
	return client.New(table, o)
}

// GetenvOfTarget returns an environment variable for the ledger that another
// one is copied to, whose passwords may have variables of their own:
// RATION_TO_REDIS_… for RATION_REDIS_….
func (s *Setup) GetenvOfTarget(name string) string {
	variable, isFile := strings.CutSuffix(name, "_FILE")
	rest, ok := strings.CutPrefix(variable, "RATION_REDIS_")
	if own := "RATION_TO_REDIS_" + rest; ok && (s.Getenv(own) != "" || s.Getenv(own+"_FILE") != "") {
		if isFile {
			own += "_FILE"
		}
		return s.Getenv(own)
	}
	return s.Getenv(name)
}

// NameOf returns an address as LedgerName does.
func (s *Setup) NameOf(table *costs.Table, address string) string {
	return client.LedgerName(table, &client.Options{Ledger: address, State: s.State, Getenv: s.Getenv})
}

// LedgerName returns the address of the ledger that was opened last, or that
// does not exist.
func (s *Setup) LedgerName() string {
	if s.Client != nil {
		return s.Client.LedgerName()
	}
	return client.LedgerName(s.Opened, s.Options())
}

// Known returns the client that was opened last or, if its ledger does not
// exist, a client.Offline.
func (s *Setup) Known() *client.Client {
	if s.Client != nil {
		return s.Client
	}
	return client.Offline(s.Opened, s.Options())
}

// LedgerState returns what is known of the ledger, asked or not.
func (s *Setup) LedgerState() client.LedgerState {
	if s.Client != nil {
		return s.Client.LedgerState()
	}
	state := client.NewLedgerState(s.lastOutage())
	if s.Opened != nil {
		if units, err := s.Known().Unrecorded(); err == nil {
			state.Unrecorded = &units
		}
	}
	return state
}

// lastOutage returns the last outage that another process has found.
func (s *Setup) lastOutage() *client.OutageError {
	dir, err := s.StateFolder()
	if err != nil {
		return nil
	}
	outage := client.LastOutage(dir)
	if outage != nil && s.Opened != nil && s.LedgerName() != outage.Ledger {
		return nil
	}
	return outage
}

// relay forwards what a client reports to report, and to the client's watch if
// it has one.
type relay struct {
	report func(quota.Call, error)
	watch  atomic.Pointer[alert.Watch]
}

func (r *relay) forward(call quota.Call, err error) {
	if w := r.watch.Load(); w != nil {
		w.Reported(call, err)
	}
	r.report(call, err)
}

// NewWatch returns what sends the alerts of the client that was opened last. It
// calls failed with each alert that cannot be sent.
func (s *Setup) NewWatch(c *client.Client, failed func(error)) *alert.Watch {
	environ, err := s.Environment()
	if err != nil {
		environ = nil // of this process
	}
	w := alert.New(c, &alert.Options{Environ: environ, Report: failed, Redact: s.Redact,
		Planned: func(ctx context.Context) ([]time.Time, error) { return s.Planned(ctx, c) }})
	s.relay.watch.Store(w)
	return w
}

// Disagrees reports whether an error that was reported says that an upstream's
// answer gives another limit or cost than costs.yaml.
func Disagrees(err error) bool {
	_, limit := errors.AsType[*quota.LimitError](err)
	_, cost := errors.AsType[*quota.CostError](err)
	return limit || cost
}
