package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// refused sends what budgets refuse now, and that they do not any more.
// Cooldowns have an alert of their own.
func (w *Watch) refused(ctx context.Context) {
	read, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	statuses, err := usage.Status(read, w.client.Guard())
	if err != nil {
		return // the next check will tell; that the ledger is down is an event of its own
	}
	if len(statuses) == 0 {
		return
	}
	at := statuses[0].At
	current, err := report.Refusing(read, w.client, statuses, at)
	if err != nil {
		return
	}
	for _, one := range current {
		e := refusedEvent(one.Refuser())
		e.detail, e.Until = one.Text, &one.Until
		isLong := one.Until.Sub(at) >= shortPause || at.Sub(one.Since) >= shortPause
		if one.IsSpent() && isLong {
			w.claimAndSend(ctx, e)
		}
	}
	over, err := report.GrantedAgain(read, w.client, statuses)
	if err != nil {
		return
	}
	for _, by := range over {
		e := refusedEvent(by)
		e.detail = human.Name(e.Budget) + " of " + human.Name(e.Account) + " grants calls again"
		if by.Key != "" {
			e.detail = fmt.Sprintf("%s of %s grants calls of key %s again", human.Name(e.Budget), human.Name(e.Account),
				human.Name(by.Key))
		}
		w.over(ctx, e)
	}
}

// readDay reports whether a log has a refusal of the last day: without one, as
// mostly, its entries need not be copied once a minute. It returns an event for
// each host that restored what a log had lost.
func (w *Watch) readDay(ctx context.Context) (hasRefusals bool, losses []*event) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	for account := range w.targets {
		now, _, err := w.client.Guard().Now(ctx, account)
		if err != nil {
			continue
		}
		for sum, err := range w.client.Guard().Sums(ctx,
			quota.Query{Account: account, Since: now.Add(-24 * time.Hour)}) {
			if err != nil {
				break
			}
			hasRefusals = hasRefusals || sum.Kind == quota.EntryRefused
			if sum.Kind == quota.EntryNote && sum.Method == engine.Restored {
				losses = append(losses, lossEvent(account, sum.Host, sum.Last))
			}
		}
	}
	return hasRefusals, losses
}

func lossEvent(account, host string, at time.Time) *event {
	return &event{Kind: costs.AlertLedger, Account: account, name: fmt.Sprintf("lost %s %d", host, at.Unix()),
		detail: fmt.Sprintf("the ledger of account %s had lost records: host %s restored at %s what it knew of them; "+
			"other hosts restore their own when they return", human.Name(account), human.Name(host), human.Time(at))}
}

func refusedEvent(by report.Refuser) *event {
	return &event{Kind: costs.AlertRefused, Account: by.Account, Budget: by.Budget,
		name: fmt.Sprintf("refused %s %s", by.Budget, by.Key)}
}

// wants reports whether a target wants alerts of a kind.
func (w *Watch) wants(kind string) bool {
	for _, targets := range w.targets {
		if slices.ContainsFunc(targets, func(target *costs.Alert) bool { return slices.Contains(target.On, kind) }) {
			return true
		}
	}
	return false
}

// over sends the end of an event to each target that the event was sent to. If
// it recurs, it is sent again.
func (w *Watch) over(ctx context.Context, e *event) {
	for i, target := range w.targets[e.Account] {
		request := w.claimOf(e, target, fmt.Sprintf("%s %d %d", e.name, 0, i))
		account := w.client.Guard().Account(e.Account)
		state, err := account.ClaimState(ctx, request.Name)
		if err != nil || state.Done.IsZero() {
			continue
		}
		request.Anew = true
		claim, err := account.Claim(ctx, request)
		if err != nil {
			continue // another process tells
		}
		if claim.Before.Done.IsZero() { // it has told meanwhile
			_ = claim.Release(ctx) // else it lapses
			continue
		}
		if err := w.send(ctx, e, target); err != nil {
			w.failed(e, errors.Join(err, claim.Done(ctx))) // to be told at the next check
			continue
		}
		if err := claim.Release(ctx); err != nil {
			w.failed(e, fmt.Errorf("sent, and may be sent again: %w", err))
		}
	}
}

// Test sends a test to every target, and returns whom it reached. The error
// lists those that it did not.
func (w *Watch) Test(ctx context.Context) (reached []string, err error) {
	var failed []error
	for _, account := range w.client.Table().Accounts() {
		for _, target := range w.targets[account] {
			e := &event{Kind: "test", Account: account, detail: "this is a test of the alerts of account " +
				human.Name(account)}
			if err := w.send(ctx, e, target); err != nil {
				failed = append(failed, fmt.Errorf("alert of account %s: %w", human.Name(account), err))
			} else {
				reached = append(reached, fmt.Sprintf("account %s: sent to %s", human.Name(account), target))
			}
		}
	}
	return reached, errors.Join(failed...)
}
