package web

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
)

const (
	readTimeout = 20 * time.Second
	readPause   = 5 // between two readings, in times of how long one takes
)

// reader reads what the page shows through one client. It reads while the
// Page's lock is held.
type reader struct {
	lifetime context.Context // ends readings
	client   *client.Client
	options  *Options

	snapshot *snapshot // of the last update; nil before
	readAt   time.Time
	took     time.Duration
	knownAt  time.Time // when the ledger was read last; zero before
	updates  int
	catalog  *catalog.Catalog // nil: there is none yet
	claimsAt time.Time        // when claims were read
	// explained are the refusals that the ledger has explained.
	explained map[refusalKey]*report.Why
}

// snapshot is what the page shows.
type snapshot struct {
	At       time.Time // on the ledger's clock, if it answers
	Ledger   string
	State    client.LedgerState
	Restored []client.Restoration // what this host restored in the last 24 hours
	Err      error                // why the ledger could not be read
	KnownAt  time.Time            // when it was read last; zero if this process has not
	Refusing []*report.Refusal
	Accounts []*accountState // as this host knows them if the ledger could not be read; nil if it knows nothing
	Keyed    []usage.KeyReport
	Refusals []*refusalGroup
	Passes   []*passRow
	Failures []catalog.Failures
	Claims   []jobs.PassClaim // of all hosts, on the current passes
	HasPlan  bool
	PlanErr  error
}

// accountState is what is known of one account.
type accountState struct {
	Name      string
	Budgets   []*usage.BudgetReport
	Cooldowns []report.Cooldown
	Log       *usage.LogReport
	activity  *activity
	planned   hours
	limit     *limitLine
}

func newReader(lifetime context.Context, c *client.Client, o *Options) *reader {
	return &reader{lifetime: lifetime, client: c, options: o, explained: map[refusalKey]*report.Why{}}
}

// update reads everything, unless that was done a moment ago.
func (r *reader) update() *snapshot {
	if r.snapshot != nil && time.Since(r.readAt) < max(r.options.Every/2, readPause*r.took) {
		return r.snapshot
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.lifetime, readTimeout)
	defer cancel()
	s := &snapshot{At: began.UTC(), Ledger: r.client.LedgerName()}
	r.readPasses(ctx, s)
	s.Err = r.redact(r.readLedger(ctx, s))
	if s.Err == nil {
		r.knownAt = s.At
	} else if r.readLedger(engine.WithKnown(r.lifetime), s) != nil {
		s.Accounts = nil // those that were read have no budgets
	}
	s.KnownAt = r.knownAt
	s.State, s.Restored = r.client.LedgerState(), r.client.Restorations()
	r.readRefusals(ctx, s)
	r.readClaims(ctx, s)
	setOutcomes(s)
	r.snapshot, r.readAt = s, time.Now()
	r.took = time.Since(began)
	if s.Err != nil {
		r.took = 0 // what took so long was not the log
	}
	r.updates++
	return s
}

// readLedger reads the budgets, the logs and what follows from them.
func (r *reader) readLedger(ctx context.Context, s *snapshot) error {
	guard, table := r.client.Guard(), r.client.Table()
	found, err := usage.Status(ctx, guard)
	if err != nil {
		return err
	}
	keys, err := usage.TopKeys(ctx, guard, table.Accounts(), maxShownKeys)
	if err != nil {
		return err
	}
	s.Keyed, s.Accounts = keys.Fullest, nil
	for i := range found {
		s.At = found[i].At.UTC()
	}
	accounts := map[string]*accountState{}
	for _, name := range table.Accounts() {
		account := &accountState{Name: name}
		accounts[name] = account
		s.Accounts = append(s.Accounts, account)
		if err := r.readAccount(ctx, s, account); err != nil {
			return err
		}
	}
	budgets := keys.Reports(found)
	for i, b := range budgets {
		accounts[b.Account].Budgets = append(accounts[b.Account].Budgets, b)
		accounts[b.Account].addLimit(&found[i])
	}
	s.PlanErr = r.redact(r.foresee(ctx, s, accounts, budgets))
	s.Refusing, err = report.Refusing(ctx, r.client, found, s.At)
	report.DropForecasts(budgets, s.Refusing)
	return err
}

// readAccount reads the cooldowns and the log of an account.
func (r *reader) readAccount(ctx context.Context, s *snapshot, account *accountState) error {
	_, held, err := report.ListCooldowns(ctx, r.client.Guard(), []string{account.Name})
	if err != nil {
		return err
	}
	account.Cooldowns = shownCooldowns(held)
	if account.Log, err = usage.Log(ctx, r.client.Guard(), account.Name); err != nil {
		return err
	}
	account.activity, err = readActivity(ctx, r.client.Guard(), account.Name, s)
	return err
}

// redact returns an error without secrets.
func (r *reader) redact(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.options.Redact(err.Error()))
}

func (r *reader) close() {
	if r.catalog != nil {
		r.catalog.Close()
		r.catalog = nil
	}
}
