// Package client opens everything that a costs.yaml names and returns it as
// an http.RoundTripper.
//
//	c, err := client.Open("costs.yaml", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer c.Close()
//	httpClient := &http.Client{Transport: c}
//
// The Client prices each request, charges it to the shared ledger, falls back
// to when_ledger_down while the ledger cannot be reached, and applies what the
// upstream's answers say about its quota. It records refusals in the state
// folder, for ration why and the history. Command ration uses this package too,
// so a program and the commands share one ledger if they have the same
// costs.yaml, state folder and environment.
//
// # For programs
//
// A program needs [Open], or [New] with a table of its own, a [Client] and its
// [Options]. [Client.Guard] spends by hand, and [Client.NewTransport] makes
// another RoundTripper, such as one that prices requests itself:
//
//	web := &http.Client{Transport: c.NewTransport(func(t *quota.Transport) { t.Price = price })}
//
// [IsDown] says whether an error means that the ledger is down. Errors that no
// method returns, such as an [OutageError], go to Options.Report.
//
// # For commands
//
// The other functions say which files and which ledger are used, and read what
// the state folder and the replica hold, as [LastRefusal] and [Offline] do.
// A program that only makes calls can skip them.
//
// # Environment
//
// The ledger is Options.Ledger, else RATION_LEDGER, else ledger: in costs.yaml,
// else the file ration.db in the state folder. Passwords for Redis come from
// RATION_REDIS_PASSWORD and RATION_REDIS_SENTINEL_PASSWORD, or from the files
// named by these variables with _FILE appended, and those for Postgres from
// ~/.pgpass, PGPASSFILE or PGPASSWORD; a password in an address is an error.
// The state folder is Options.State, else the one that [StateFolder] returns.
//
// The other variables of command ration do not apply here: the folder of the
// configuration files (RATION_CONFIG), the test endpoint (RATION_ENDPOINT) and
// the API key.
//
// # Tests
//
// Requests to hosts that costs.yaml does not guard are sent without a charge,
// and a test server is such a host. To charge them, pass [New] a table that
// guards the server too: [costs.Table.WithEndpoint] makes one, as in the
// example of New.
//
// # Files
//
// The state folder and these files in it are created when they are first
// needed, readable by their owner only:
//
//	ration.db, ration.db*   the ledger and what belongs to it, if no other is named
//	ledger-down.json        the current outage of the ledger, for other processes
//	ledger.json             the ledger that each costs.yaml used last
//	last-refusal.json       the last refusal, which ration why explains
//	refusals-DATE.jsonl     how many calls were refused, for the history
//	restored.json           what this host restored of the ledger
//	replica                 the host's copy of the ledger, which package
//	                        internal/replica describes; see [Options].Replica
//
// A SQLite ledger that is named must be in a folder that exists. Otherwise a
// typo would create a second, empty ledger.
package client

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota"
)

// Options are the options of Open and New. The zero value is the default.
type Options struct {
	// Ledger is the address of the ledger: sqlite:FILE, redis://HOST:PORT/DB or
	// another scheme of package redisledger, or postgres://USER@HOST/DATABASE. ""
	// means the one that the environment or costs.yaml names.
	Ledger string
	// MustExist makes a SQLite ledger that does not exist an error,
	// sqliteledger.ErrNoLedger, instead of a new file.
	MustExist bool
	// Opened is the ledger, in place of the one that Ledger names: one of
	// package memledger in tests and benchmarks, or one that another module
	// implements. Close closes it. The state folder and the replica of this
	// host do not apply to it: without State nothing is kept, and without
	// Replica the replica is in State. nil opens the ledger.
	Opened quota.Ledger
	// Layer decorates the ledger itself, for example to time its answers. nil
	// leaves it as it is.
	Layer func(quota.Ledger) quota.Ledger
	// State is the state folder. "" means the one that StateFolder returns.
	State string

	// Replica is the folder of this host's copy of the ledger. All processes of
	// a host and user should share it, and it should not be lost with the
	// ledger. "" means RATION_JOURNAL, else the folder replica in the
	// state folder.
	Replica string

	// Base sends the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// MaxWait is the longest wait of one request for its units; 0 never waits.
	MaxWait time.Duration

	// MaxShare is the part of what is left of each budget that the Client may
	// take, as in quota.Options; 0 does not bound it.
	MaxShare float64

	// Report is called with errors that no method returns: those passed to
	// quota.Transport.Report and, with a zero Call, an *OutageError, an
	// *EmptyLedgerError, a *RestoredError or a *ReplicaError, and with a Call of
	// its account a *quota.MovedError. It may be called from another goroutine,
	// and while a call is decided, so it must not use the Guard. nil logs
	// warnings to slog.Default. go-redis also writes each failed connection to
	// stderr, unless Disable of its package
	// github.com/redis/go-redis/v9/logging turns that off for the program.
	Report func(quota.Call, error)
	// Conceal is called with each password before it is used, so that the
	// program can keep it out of its output. nil disables the callback.
	Conceal func(secret string)
	// Redact removes secrets, such as an API key, from an upstream's text
	// before it is written to the ledger, the replica or the state folder. The
	// credentials of the request itself are removed without it. It must be safe
	// for concurrent use. nil removes nothing else.
	Redact func(text string) string

	// Getenv returns an environment variable; nil means os.Getenv.
	Getenv func(string) string
	// Now is a test's clock for the ledger, the allowance and feedback. nil
	// means the ledger's own clock, and time.Now.
	Now func() time.Time
}

func (o *Options) withDefaults() (filled Options) {
	if o != nil {
		filled = *o
	}
	if filled.Getenv == nil {
		filled.Getenv = os.Getenv
	}
	return filled
}

// Client is an http.RoundTripper that prices, charges and sends requests as a
// costs.yaml says. It is safe for concurrent use. Make one with Open or New:
// the zero Client sends nothing and has no Guard.
type Client struct {
	table       *costs.Table
	options     Options // with its defaults filled in
	state       string  // "" where there is none
	name        string
	inner       quota.Ledger     // as it was opened
	ledger      quota.Ledger     // the same, with what watches it
	replica     *replica.Replica // nil where there is no folder for it
	made        time.Time        // when the replica was opened
	knows       bool             // the replica knew of the ledger then
	restored    restorations
	background  backgroundReports
	shared      *shared
	rejected    hourly // rejections that were reported, by account and host
	guard       *quota.Guard
	outages     *outages
	refusals    refusals
	unexplained unexplainedLog
	inbound     inboundStore
	feedback    func(quota.Call, *http.Response) quota.Verdict
	transport   *quota.Transport
	logged      atomic.Value // the text of the last outage that was logged
}

// Open reads the costs.yaml at path and opens what it names. Unlike New, it
// also calls CheckMove and reports an *EmptyLedgerError.
//
// Open returns a *strictyaml.Error with all mistakes in the file, or a
// *ConfigError or a quota.ErrLedgerConfig for other mistakes in the
// configuration. A server that is down is not an error of Open, but of the
// requests; see also redisledger.Open for what its client writes to stderr.
func Open(path string, o *Options) (*Client, error) {
	if path == "" {
		return nil, configError("no path of a costs.yaml; give one, such as costs.yaml, or %s", makeFile)
	}
	table, err := costs.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, configError("%w; %s, or name another file", err, makeFile)
	}
	if err != nil {
		return nil, err
	}
	c, err := New(table, o)
	if err != nil {
		return nil, err
	}
	if err := c.CheckMove(context.Background()); err != nil {
		c.report(quota.Call{}, err)
	}
	return c, nil
}

// New opens what table names, for a program that loads or changes its table
// itself. It returns the errors of Open.
func New(table *costs.Table, o *Options) (*Client, error) {
	c := &Client{table: table, options: o.withDefaults()}
	address, state, err := c.options.locate(table)
	if err != nil {
		return nil, err
	}
	c.state = state
	read, err := newFeedback(table, c.options.Now)
	if err != nil {
		return nil, err
	}
	c.feedback = c.notingRejections(c.keepingUnexplained(c.hidingSecrets(read)))
	if c.name, c.inner = "opened", c.options.Opened; c.inner == nil {
		if c.name, c.inner, err = c.options.openLedger(table, address, state); err != nil {
			return nil, c.options.addPlace(err, table)
		}
	}
	c.outages = c.newOutages()
	ledger := c.inner
	if c.options.Layer != nil {
		ledger = c.options.Layer(ledger)
	}
	if err := c.openReplica(true); err != nil {
		_ = c.inner.Close()
		return nil, &ConfigError{err}
	}
	guarded := c.logOptions()
	guarded.History = table.History()
	c.ledger = engine.WatchLedger(ledger, c.watch)
	if c.guard, err = quota.NewGuard(c.ledger, table.Budgets(), guarded); err != nil {
		_ = c.inner.Close()
		return nil, &ConfigError{err}
	}
	c.shared = newShared(table.Budgets())
	c.guard.Observe(c.recordRefusal)
	c.transport = c.newTransport(nil)
	return c, nil
}

// whyRefused returns why no call is granted while the ledger is down, or "" if
// some may be.
func (o *Options) whyRefused(table *costs.Table) string {
	allows := func(r costs.DownRule) bool { return r.Allow > 0 }
	allowsAny := func(u costs.Upstream) bool { return slices.ContainsFunc(u.Down, allows) }
	switch {
	case o.replicaFolder() == "":
		return "there is no folder for a replica to count them in"
	case !hasDownRules(table):
		return "costs.yaml has no when_ledger_down"
	case !slices.ContainsFunc(table.Upstreams(), allowsAny):
		return "when_ledger_down of costs.yaml allows none"
	}
	return ""
}

// hasDownRules reports whether costs.yaml has a when_ledger_down.
func hasDownRules(table *costs.Table) bool {
	return slices.ContainsFunc(table.Upstreams(), func(u costs.Upstream) bool { return len(u.Down) > 0 })
}

// Table returns the prices and budgets in force.
func (c *Client) Table() *costs.Table { return c.table }

// Guard returns the guard, for calls that are not HTTP requests.
func (c *Client) Guard() *quota.Guard { return c.guard }

// LedgerName returns the address of the ledger, without secrets.
func (c *Client) LedgerName() string { return c.name }

// State returns the state folder, or "" where there is none.
func (c *Client) State() string { return c.state }

// closeTimeout is the longest time that Close waits.
const closeTimeout = 5 * time.Second

// Close waits, for at most five seconds, until the upstreams' answers so far
// are recorded, and closes the ledger. Requests in flight may fail, and their
// answers are not applied. Later ones fail with quota.ErrLedgerClosed. Close
// does not close the idle connections of Base.
func (c *Client) Close() error {
	if c.guard == nil {
		return errNotOpened
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	c.guard.Drain(ctx)
	c.refusals.close(c)
	err := errors.Join(c.ledger.Close(), c.inbound.end())
	c.background.wait(ctx)
	if c.replica != nil {
		err = errors.Join(err, c.replica.Close())
	}
	return err
}

func (c *Client) report(call quota.Call, err error) {
	if c.options.Report != nil {
		c.options.Report(call, err)
		return
	}
	if _, ok := errors.AsType[*OutageError](err); ok && c.logged.Swap(err.Error()) == err.Error() {
		return // the first call without the ledger says no more than the one that found it down
	}
	attributes := []any{"ledger", c.name}
	if call.Method != "" {
		attributes = append(attributes, "method", call.Method)
	}
	slog.Warn("ration: "+err.Error(), attributes...)
}
