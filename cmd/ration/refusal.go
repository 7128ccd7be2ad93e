package main

import (
	"errors"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// refusal is the last refusal that ended a command.
type refusal = client.Refusal

// keepRefusal records the refusal that ended a command, for why, without what
// is not to be printed.
func (a *app) keepRefusal(err error) {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || a.spending == nil || a.spending.Client == nil {
		return
	}
	shown := *refused
	shown.Detail = a.concealed(shown.Detail)
	a.spending.RecordRefusal(&shown)
}

// refusedAt returns when a call was refused, by the ledger's clock.
func (a *app) refusedAt(r *quota.RefusedError) time.Time { return client.RefusedAt(r, a.now) }

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

// readRefusal returns the last refusal, and nil when none is known.
func (a *app) readRefusal() (*refusal, error) {
	dir, err := a.state()
	if err != nil {
		return nil, err
	}
	return client.LastRefusal(dir)
}
