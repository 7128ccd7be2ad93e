package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// refusal is the last refusal that ended a command, as the state folder keeps
// it. Ledgers do not record refusals.
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

// lastRefusal is the file of the last refusal in the state folder.
const lastRefusal = "last-refusal.json"

// keepRefusal writes down the refusal that ended a command, for why. Errors are
// ignored.
func (a *app) keepRefusal(err error) {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || a.outages == nil {
		return
	}
	by := refused.Caller
	kept := &refusal{At: jsonTime(a.refusedAt(refused)), Ledger: a.outages.name, Account: refused.Account, Method: refused.Method,
		Region: dash(by.Region), Job: dash(by.Job), Lane: dash(by.Lane), Reason: string(refused.Reason), Measure: refused.Measure.String(),
		Units: refused.Units, Needed: refused.Needed, Remaining: refused.Remaining, Kept: refused.Kept, Limit: refused.Limit,
		RetryAt: jsonTime(refused.RetryAt), Message: a.concealed(refused.Error())}
	if refused.Budget != "" {
		kept.Budget = &refused.Budget
	}
	if refused.Detail != "" {
		kept.Detail = new(a.concealed(refused.Detail))
	}
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
