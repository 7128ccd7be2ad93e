package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// CheckMissingLedger checks whether a ledger that does not exist can
// be created. isLost says that this host was granted calls on it.
func (c *Checkup) CheckMissingLedger(name string, isLost bool) {
	if err := files.Makeable(strings.TrimPrefix(name, "sqlite:")); err != nil {
		c.failConfig("ledger %s: none there yet, and it cannot be made: %w; have it made for this user, or name "+
			"another ledger with --ledger", name, err)
		return
	}
	if isLost {
		c.Add(Warning, "find out who removed it, or name another ledger with --ledger",
			"ledger %s: none there any more, the next call makes it", name)
		return
	}
	if !c.isReplaced {
		c.Add(OK, "", "ledger %s: none there yet, the first call makes it", name)
	}
}

// CheckLedger checks that the ledger answers, its clock, and the settings of
// a Redis.
func (c *Checkup) CheckLedger(ctx context.Context, opened *client.Client) {
	accounts, name := opened.Table().Accounts(), opened.LedgerName()
	at, _, err := opened.Guard().Now(ctx, accounts[0])
	if err != nil {
		c.Fail(client.NameLedger(err, name))
		return
	}
	c.Add(OK, "", "ledger %s answers", name)
	if err := opened.CheckSpelling(ctx); err != nil {
		c.failSpelling(client.NameLedger(err, name))
	}
	balances, err := opened.Guard().Balances(ctx)
	if err != nil {
		c.Fail(err)
	}
	if skew := at.Sub(c.Now()).Abs(); skew > quota.MaxClockSkew {
		c.Add(Warning, "set both clocks by NTP", "the ledger's clock and this host's are %s apart",
			skew.Round(time.Second))
	}
	for _, account := range accounts {
		c.checkMove(ctx, opened.Guard(), account)
		_, ahead, err := opened.Guard().Now(ctx, account)
		if err != nil {
			c.Fail(client.NameLedger(err, name))
		} else if ahead > 0 {
			c.Add(Warning, ResolveAhead, "%s", EntryAhead(human.Name(account), ahead))
		}
	}
	c.checkLimits(balances)
	found, err := opened.Inspect(ctx)
	if err != nil {
		c.Fail(client.NameLedger(err, name))
	}
	for _, f := range found {
		grade := f.Severity.String()
		if f.Severity == redisledger.Problem {
			c.Err = cmp.Or[error](c.Err, &client.ConfigError{Err: errors.New(f.What)})
		}
		c.Add(grade, f.Do, "%s", f.What)
	}
}

// failSpelling adds the error of client.Client.CheckSpelling.
func (c *Checkup) failSpelling(err error) {
	alike, ok := errors.AsType[*engine.LookAlikeError](err)
	if !ok {
		c.Fail(err)
		return
	}
	c.Add(Problem, fmt.Sprintf("write %s in costs.yaml, or choose a name that differs in more than case and spaces",
		human.Name(alike.Known)),
		"account %s has no log, but account %s has one in this ledger; two spellings would each have the whole limit",
		human.Name(alike.Account), human.Name(alike.Known))
	c.Err = cmp.Or(c.Err, err)
}

// checkMove finds an account that moves to another ledger.
func (c *Checkup) checkMove(ctx context.Context, guard *quota.Guard, account string) {
	moved, err := guard.Moved(ctx, account)
	switch {
	case err != nil:
		c.Fail(err)
	case moved != nil && moved.Arriving:
		c.Add(Warning, "run the same ration ledger copy again",
			"account %s is being copied to this ledger from %s; until the copy is complete, calls are refused",
			human.Name(account), human.Name(moved.Ledger))
	case moved != nil:
		c.Add(Problem, "name that ledger", "account %s has moved to the ledger %s; calls are refused here",
			human.Name(account), human.Name(moved.Ledger))
		c.Err = cmp.Or[error](c.Err, &client.ConfigError{Err: moved})
	}
}

// checkLimits finds budgets whose limit another configuration has asked lower.
func (c *Checkup) checkLimits(balances []quota.Balance) {
	for _, b := range balances {
		if b.StricterLimit > 0 {
			c.Add(Warning, FindConfiguration+
				"; give both the same limit or, if that one is no longer in use, run ration ledger accept",
				"the limit of %s is %d here, and another configuration has asked for %d within a day, which holds "+
					"until %s", human.Name(b.Budget.Name), b.Budget.Limit, b.StricterLimit, human.Time(b.LimitUntil))
		}
	}
}
