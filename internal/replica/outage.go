package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

const (
	// outageSpan is how far back an allowance counts.
	outageSpan = 24 * time.Hour
	// outageWait is how long a process waits for another one's decision.
	outageWait = 10 * time.Second
)

// Outage lets decide grant a call while the ledger is down. decide gets the
// records that Outage has kept on this host in the 24 hours before now, oldest
// first, and returns one to be kept, or nil for none. Outage keeps it at the
// time now, and the engine appends it to the log when the ledger is back. No
// other process of the host decides for the account meanwhile.
//
// The record has an id of the engine that grants it. If Outage returns an
// error, which may be decide's, the record is not granted: it must not be sent.
func (r *Replica) Outage(account string, now time.Time,
	decide func(recent []engine.Record) (*engine.Record, error)) (err error) {
	a := r.account(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	lock, err := files.OpenLock(filepath.Join(r.folder, a.files+".lock"))
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks it
	ctx, cancel := context.WithTimeoutCause(context.Background(), outageWait,
		errors.New("another process has held the lock for too long"))
	defer cancel()
	if err := lock.Lock(ctx); err != nil {
		return fmt.Errorf("replica: %s: %w", lock.File().Name(), err)
	}
	recent, err := a.recent(now)
	if err != nil {
		return fmt.Errorf("replica: read the grants of the outage: %w", err)
	}
	granted, err := decide(recent)
	if err != nil || granted == nil {
		return err
	}
	if err := a.saveOutage(granted, now); err != nil {
		return fmt.Errorf("replica: record a grant of the outage: %w", err)
	}
	return nil
}

// recent returns what Outage has kept since a day before now, and forgets what
// is older. The caller holds the lock.
func (a *accountCopy) recent(now time.Time) (records []engine.Record, err error) {
	if err := a.open(a.replica.today()); err != nil {
		return nil, err
	}
	if err := a.scanAll(); err != nil {
		return nil, err
	}
	since := now.Add(-outageSpan).UnixMicro()
	a.outages = slices.DeleteFunc(a.outages, func(b engine.Batch) bool { return b.At <= since })
	for i := range a.outages {
		part, err := engine.Unpack(&a.outages[i])
		if err != nil {
			return nil, err
		}
		records = append(records, part...)
	}
	return records, nil
}

// saveOutage appends a record as a batch that no log has.
func (a *accountCopy) saveOutage(r *engine.Record, now time.Time) error {
	kept := *r
	kept.At, kept.Kept = now.UnixMicro(), true
	e := element{kind: kindOutage, batch: engine.Batch{At: kept.At}}
	e.batch.Data = engine.Pack(kept.ID, []*engine.Record{&kept})
	a.out = e.append(a.out[:0])
	return a.write()
}

// GrantedDown returns what a host was granted of an account without the ledger
// in the 24 hours before now, and how much of it no log is known to have.
func (r *Replica) GrantedDown(account string, now time.Time) (all, unrecorded int64, err error) {
	granted := map[engine.ID]int64{}
	err = r.Outage(account, now, func(recent []engine.Record) (*engine.Record, error) {
		for i := range recent {
			if recent[i].Kind == engine.KindGrant {
				granted[recent[i].ID] = recent[i].Amounts.Units
				all += recent[i].Amounts.Units
			}
		}
		return nil, nil
	})
	if err != nil || len(granted) == 0 {
		return all, 0, err
	}
	unrecorded = all
	err = r.Load(account, func(epoch uint64, b *engine.Batch) error {
		if epoch == 0 {
			return nil
		}
		records, err := engine.Unpack(b)
		for i := range records {
			unrecorded -= granted[records[i].ID]
			delete(granted, records[i].ID)
		}
		return err
	})
	return all, unrecorded, err
}
