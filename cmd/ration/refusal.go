package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// refusal is the last refusal that ended a command, as the state folder keeps
// it: the ledger writes nothing of refusals.
type refusal struct {
	At        time.Time   `json:"at"` // by the ledger's clock
	Ledger    string      `json:"ledger"`
	Account   string      `json:"account"`
	Budget    *string     `json:"budget"` // null: a cooldown of the whole account
	Method    string      `json:"method"`
	Region    string      `json:"region"`
	Job       string      `json:"job"`
	Lane      string      `json:"lane"`
	Reason    string      `json:"reason"`
	Detail    *string     `json:"detail"`
	Measure   string      `json:"measure"`
	Units     quota.Units `json:"units"` // what the call costs; 0: not known
	Needed    quota.Units `json:"needed"`
	Remaining quota.Units `json:"remaining"`
	Kept      quota.Units `json:"kept"`
	Limit     quota.Units `json:"limit"`
	RetryAt   time.Time   `json:"retry_at"`
	Message   string      `json:"message"`
}

// asker remembers for which calls the ledger was asked in vain: a refusal does
// not say on whose behalf it was. It is safe for concurrent use.
type asker struct {
	quota.Ledger
	name string

	mu      sync.Mutex
	refused map[refusedKey]asked
}

// refusedKey is what two refusals of the same calls have in common.
type refusedKey struct {
	account, method, budget string
	retryAt                 time.Time
}

type asked struct {
	caller quota.Caller
	units  quota.Units
}

// maxRefused bounds what an asker remembers.
const maxRefused = 256

func keyOf(r *quota.RefusedError) refusedKey {
	return refusedKey{r.Account, r.Method, r.Budget, r.RetryAt.UTC()}
}

// asking returns the ledger, and keeps in mind what it refuses.
func (a *app) asking(l quota.Ledger, name string) quota.Ledger {
	a.asked = &asker{Ledger: l, name: name, refused: map[refusedKey]asked{}}
	return a.asked
}

// Spend implements quota.Ledger.
func (l *asker) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	answers, err := l.Ledger.Spend(ctx, batch)
	for i := range answers {
		if refused, ok := errors.AsType[*quota.RefusedError](answers[i].Err); ok {
			l.mu.Lock()
			if len(l.refused) >= maxRefused {
				clear(l.refused)
			}
			l.refused[keyOf(refused)] = asked{batch.Requests[i].Caller, batch.Requests[i].Units}
			l.mu.Unlock()
		}
	}
	return answers, err
}

// RealTime implements quota.RealTimeLedger.
func (l *asker) RealTime() bool { return quota.RealTime(l.Ledger) }

// lastRefusal is the file of the last refusal in the state folder.
const lastRefusal = "last-refusal.json"

// keepRefusal writes the refusal that ended a command down, for why. It is
// no reason to fail.
func (a *app) keepRefusal(err error) {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || a.asked == nil {
		return
	}
	a.asked.mu.Lock()
	by := a.asked.refused[keyOf(refused)]
	a.asked.mu.Unlock()
	kept := &refusal{At: jsonTime(a.refusedAt(refused)), Ledger: a.asked.name, Account: refused.Account, Method: refused.Method,
		Region: dash(by.caller.Region), Job: dash(by.caller.Job), Lane: dash(by.caller.Lane), Reason: string(refused.Reason), Measure: refused.Measure.String(),
		Units: by.units, Needed: refused.Needed, Remaining: refused.Remaining, Kept: refused.Kept, Limit: refused.Limit, RetryAt: jsonTime(refused.RetryAt), Message: refused.Error()}
	if refused.Budget != "" {
		kept.Budget = &refused.Budget
	}
	if refused.Detail != "" {
		kept.Detail = new(a.concealed(refused.Detail))
	}
	kept.Message = a.concealed(kept.Message)
	text, err := json.Marshal(kept)
	if err != nil {
		return
	}
	if dir, err := a.makeState(); err == nil {
		privatefile.Replace(filepath.Join(dir, lastRefusal), append(text, '\n'), false)
	}
}

// refusedAt returns when a call was refused, by the ledger's clock; by this
// host's if that is further from RetryAt than a time.Duration can say.
func (a *app) refusedAt(r *quota.RefusedError) time.Time {
	if r.RetryAfter == math.MaxInt64 {
		return a.now()
	}
	return r.RetryAt.Add(-r.RetryAfter)
}

// concealed returns text without the secrets that are kept out of what is printed.
func (a *app) concealed(text string) string {
	for out := a.stderr; ; {
		r, ok := out.(redactor)
		if !ok {
			return text
		}
		text, out = r.secrets.Replace(text), r.out
	}
}

// maxStateFile is the most that is read of a small file in the state folder.
const maxStateFile = 64 << 10

// readRefusal returns the last refusal, and nil when none is known.
func (a *app) readRefusal() (*refusal, error) {
	dir, err := a.state()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lastRefusal)
	text, err := privatefile.ReadFile(path, maxStateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &configError{fmt.Errorf("last refusal: %w; make it readable, or remove it", err)}
	}
	kept := &refusal{}
	if err := json.Unmarshal(text, kept); err != nil || kept.Account == "" || kept.Method == "" || kept.Budget == nil && kept.Reason != string(quota.ReasonCooldown) {
		return nil, &configError{fmt.Errorf("%s is no refusal as ration keeps it; remove it", path)}
	}
	return kept, nil
}
