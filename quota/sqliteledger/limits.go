package sqliteledger

import (
	"context"
	"database/sql/driver"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// limits returns the limits that were asked of an account, from the cache or
// the file.
func (t *tx) limits(account string) *decide.Limits {
	if l := t.ledger.limits[account]; l != nil {
		return l
	}
	l := t.loadLimits(account)
	if t.err == nil {
		t.ledger.limits[account] = l
	}
	return l
}

func (t *tx) loadLimits(account string) *decide.Limits {
	l := &decide.Limits{Asked: map[string][]decide.AskedLimit{}}
	t.lookup("limits", func(row []driver.Value) {
		budget := text(row[0])
		l.Asked[budget] = append(l.Asked[budget], decide.AskedLimit{
			Config: text(row[1]), Changed: integer(row[2]), Limit: integer(row[3]), Until: integer(row[4])})
	}, account)
	return l
}

// Limited implements decide.Log. It records the limits of charges once a
// quarter of an hour, also those of refused requests.
func (b *txLog) Limited(charges []*quota.Charge) []*quota.Charge {
	account := b.of.name.account
	limits := b.limits(account)
	held, changed := limits.Ask(charges, b.now)
	if b.cacheOnly && len(changed) > 0 {
		delete(b.ledger.limits, account)
		b.fail(errNotCached)
		return nil
	}
	for _, budget := range changed {
		b.exec("limit-clear", account, budget)
		for _, a := range limits.Asked[budget] {
			b.exec("limit-set", account, budget, a.Config, a.Changed, a.Limit, a.Until)
		}
	}
	if len(changed) > 0 {
		b.exec("limit-sweep", account, b.now)
	}
	return held
}

// Limited implements decide.Log.
func (o *readOnly) Limited(charges []*quota.Charge) []*quota.Charge {
	return o.loaded.Held(charges, o.now)
}

// ClearLimits implements quota.Ledger.
func (l *Ledger) ClearLimits(ctx context.Context, account string) error {
	return l.write(ctx, func(t *tx) {
		t.exec("limits-clear", account)
		l.dropCache()
	})
}
