package sqliteledger

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"math"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// checkKnown returns a *quota.ForgottenError if the log no longer holds the
// newest entry that the batch knows, or own, the newest of this process, which
// the caller may not have noted yet.
func (t *tx) checkKnown(g *log, batch *quota.Batch, own any) error {
	if err := batch.CheckKnown(g.epoch, decide.Time(g.newest)); err != nil || batch.Known.ID == (quota.ID{}) || !g.keepsEntries() {
		return err
	}
	last, looked := t.ledger.looked[g.name]
	if since := t.now - last; looked && since >= 0 && since < decide.CheckEvery {
		return nil
	}
	known := []quota.Receipt{batch.NewestKnown()}
	if own, ok := own.(quota.Receipt); ok {
		known = append(known, own)
	}
	for _, r := range known {
		stamp := r.At.UnixMicro()
		_, found := t.findEntry(g, r.ID, stamp)
		if found || r.ID == (quota.ID{}) {
			continue
		}
		if g.contains(stamp) && t.keptAt(g, r.At) && t.err == nil {
			of := *batch
			of.Known = r
			return of.Forgotten(g.epoch, decide.Time(g.newest))
		}
	}
	if len(t.ledger.looked) >= 1024 {
		clear(t.ledger.looked)
	}
	t.ledger.looked[g.name] = t.now
	return nil
}

// Restore implements quota.Ledger.
func (l *Ledger) Restore(ctx context.Context, r *quota.Restoration) (done quota.RestoreResult, err error) {
	if err := r.Check(); err != nil {
		return done, err
	}
	var stopped error
	restore := func(t *tx) {
		g := t.log(logName{r.Account, r.Key})
		if stopped = decide.CheckClock(r.Account, r.Key, r.Clock, t.wall, g.newest); stopped == nil && t.inDoubt() && r.Key == "" {
			stopped = t.clockError(&quota.Batch{Account: r.Account})
		}
		if stopped == nil {
			done = t.restore(g, r)
			t.save(g)
		}
	}
	var kept string
	if l.damaged.Swap(false) { // perhaps where this log is not
		kept, err = l.recreate(ctx)
	}
	if err == nil {
		err = l.write(ctx, restore)
	}
	if isGone(err) {
		if kept, err = l.recreate(ctx); err == nil {
			err = l.write(ctx, restore)
		}
	}
	done.Damaged = kept
	return done, cmp.Or(err, stopped)
}

// restore merges a restoration into a log.
func (t *tx) restore(g *log, r *quota.Restoration) (done quota.RestoreResult) {
	if g.id == 0 {
		t.insertLog(g)
	}
	t.recordHistory(g, r.History)
	if g.keepsEntries() {
		restorer := decide.Restorer{
			Entries:    t.allEntries(g),
			Statements: t.statements(g),
			Epoch:      g.epoch,
			Now:        decide.Time(t.now),
			Oldest:     decide.Time(t.now - decide.Retain(g.horizon)),
		}
		done = restorer.Restore(r)
		g.epoch = restorer.Epoch
		t.exec("heard-set", g.id, string(restorer.Statements.Format()), int64(g.epoch))
		t.rebuild(g, restorer.Entries, restorer.Uncounted)
	}
	done.Known.Account = r.Account
	done.Known.Key = r.Key
	done.Known.Epoch = g.epoch
	if done.Known.At.IsZero() {
		done.Known.At = decide.Time(g.newest)
	}
	return done
}

func (t *tx) allEntries(g *log) (entries []quota.Entry) {
	t.query("page", func(row []driver.Value) { entries = append(entries, readEntry(row)) }, g.id, min(g.floor(), t.now-decide.Retain(g.horizon))+1, int64(math.MaxInt64), int64(-1))
	return entries
}

// statements returns what earlier restorations said of the log.
func (t *tx) statements(g *log) (s decide.Statements) {
	row := t.queryRow("heard", g.id)
	if row == nil {
		return s
	}
	s, err := decide.ParseStatements([]byte(text(row[0])))
	if err != nil {
		t.fail(t.ledger.damage(fmt.Errorf("what clients have heard of account %q is malformed: %w", g.name.account, err)))
	}
	return s
}

// rebuild replaces the entries of a log, and computes its lists and counters
// from them. Counters have not counted uncounted before.
func (t *tx) rebuild(g *log, entries, uncounted []quota.Entry) {
	t.exec("drop-sums", g.id)
	t.exec("drop-entries", g.id)
	g.all.newest = record{}
	for i := range entries {
		e := &entries[i]
		g.all.newest = record{e.At.UnixMicro(), g.all.newest.total + int64(e.Units)}
		t.entries = append(t.entries, g.id, g.all.newest.stamp, g.all.newest.total, int64(e.Units), int64(e.Calls),
			t.labelID(label{e.Method, e.Caller}), int64(e.ID.Client), int64(e.ID.Seq), int64(e.Kind))
	}
	t.flush()
	g.all.dropCache()
	t.refill(g, uncounted)
	g.newest = max(g.newest, g.all.newest.stamp)
	g.changed, g.refused = true, nil
}

// refill computes the lists and counters of a log from its entries, of which
// counters have not counted uncounted before.
func (t *tx) refill(g *log, uncounted []quota.Entry) {
	for _, l := range g.lists {
		if l != g.all {
			t.fill(g, l)
		}
	}
	for _, c := range g.counters {
		counted := c.Counter
		counted.AddUncounted(uncounted, c.coverage)
		c.Counter, c.changed = decide.Counter{Length: c.Length}, true
		t.fillCounter(g, &c.Counter, c.coverage)
		c.KeepHigher(&counted) // it may have counted before the log kept entries
	}
}
