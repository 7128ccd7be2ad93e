package replica

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// Old is a ledger that an earlier release has written, for Copy.From. It reads
// entries and cooldowns; claims, trials and asked limits are left behind, and
// so is what an estimate of a counter window has counted.
//
// To close an account, it gives it the cooldown without an end by which earlier
// releases say that an account has moved. Their processes are then refused, and
// told where it lives. Settlements that arrive later are not copied: the calls
// count what they counted when their account was closed.
type Old struct {
	*memledger.Ledger // what was read
	format            oldFormat
	now               func() time.Time // a clock for tests

	mu     sync.Mutex
	loaded map[string]*log // by account
}

// oldFormat is how an earlier release keeps a ledger.
type oldFormat interface {
	accounts(ctx context.Context) ([]string, error)
	entries(ctx context.Context, account string, yield func(*oldEntry)) error
	cooldowns(ctx context.Context, account string) ([]oldCooldown, error)
	// close replaces the cooldown of a whole account, whatever it is.
	close(ctx context.Context, account string, move *oldCooldown) error
	release() error
}

// ErrNotOld means that a ledger is not of an earlier release, or is not there.
var ErrNotOld = errors.New("it is not a ledger of an earlier release")

func newOld(format oldFormat) *Old {
	return &Old{Ledger: memledger.Open(nil), format: format, now: time.Now, loaded: map[string]*log{}}
}

// Close releases the ledger.
func (o *Old) Close() error { return errors.Join(o.Ledger.Close(), o.format.release()) }

// reserved begins the names of accounts, keys and cooldowns that earlier
// releases have kept for themselves.
const reserved = "ration: "

// Accounts implements engine.Ledger.
func (o *Old) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := o.format.accounts(ctx)
		for _, name := range names {
			if !strings.HasPrefix(name, reserved) && !yield(name, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// Read implements engine.Ledger. The first Read of an account reads all of it.
func (o *Old) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded[account] == nil {
		if err := o.load(ctx, account); err != nil {
			return nil, err
		}
	}
	return o.Ledger.Read(ctx, account, r)
}

// Append implements engine.Ledger for a moved record, which closes the account
// for earlier releases. What they have recorded before comes before it.
func (o *Old) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	records, err := engine.Unpack(&engine.Batch{Data: a.Data})
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range records {
		if r := &records[i]; r.Kind == engine.KindMoved {
			move := &oldCooldown{until: moveUntil, reason: movedTo + r.Text + moveID + "to a later release)"}
			if err := o.format.close(ctx, account, move); err != nil {
				return nil, err
			}
			if err := o.load(ctx, account); err != nil {
				return nil, err
			}
		}
	}
	return o.Ledger.Append(ctx, account, a)
}

// load adds the records of an account that it does not have yet.
func (o *Old) load(ctx context.Context, account string) error {
	l := o.loaded[account]
	if l == nil {
		l = newLog(o.Ledger, "in memory", account)
		l.has = map[engine.ID]bool{}
	}
	now := o.now().UnixMicro()
	var batch []*engine.Record
	flush := func() (err error) {
		if len(batch) > 0 {
			err = l.add(ctx, batch)
		}
		batch = nil
		return err
	}
	add := func(records ...*engine.Record) {
		for _, r := range records {
			if r.At = min(r.At, now); !l.has[r.ID] { // or the clock was ahead
				batch = append(batch, r)
			}
		}
	}
	var failed error
	err := o.format.entries(ctx, account, func(e *oldEntry) {
		if add(e.records()...); len(batch) >= maxBatch {
			failed = errors.Join(failed, flush())
		}
	})
	cooldowns, cooldownsErr := o.format.cooldowns(ctx, account)
	for i := range cooldowns {
		if r := cooldowns[i].record(now); r != nil && !l.isClosed() {
			add(r)
		}
	}
	if err := errors.Join(err, cooldownsErr, failed, flush()); err != nil {
		return err
	}
	o.loaded[account] = l
	return nil
}

// oldEntry is an entry of a log of an earlier release.
type oldEntry struct {
	stamp        int64
	id           engine.ID
	kind         oldKind
	labels       engine.Labels
	units, calls int64
}

// oldKind is what an entry records.
type oldKind uint8

const (
	oldCall oldKind = iota
	oldRefunded
	oldAddition // units added to an earlier call, which has the same id
	oldNote
	oldCorrection
)

// correctionName names the notes that are corrections.
const correctionName = "correction"

// records returns the entry as records. Ids are unique in an account, but not
// those of earlier releases: an addition has that of its call.
func (e *oldEntry) records() []*engine.Record {
	if strings.HasPrefix(e.labels.Key, reserved) {
		return nil
	}
	r := &engine.Record{Kind: engine.KindGrant, ID: e.id, At: e.stamp, Kept: true, Labels: e.labels,
		Amounts: engine.Amounts{Units: e.units, Calls: e.calls}}
	if e.kind == oldAddition || e.labels.Key != "" || e.id.Client == 0 {
		r.ID = e.derived("entry")
	}
	switch e.kind {
	case oldRefunded:
		settle := &engine.Record{Kind: engine.KindSettle, ID: e.derived("refund"), Ref: r.ID, At: e.stamp, Kept: true}
		return []*engine.Record{r, settle}
	case oldAddition, oldNote:
		r.Kind = engine.KindNote
	case oldCorrection:
		r.Kind, r.Name = engine.KindNote, correctionName
	}
	return []*engine.Record{r}
}

// derived returns an id of a record that the entry makes: the same whenever it
// is read.
func (e *oldEntry) derived(what string) engine.ID {
	return hashedID(fmt.Sprintf("%s %d %d %d %q", what, e.id.Client, e.id.Seq, e.stamp, e.labels.Key))
}

func hashedID(text string) engine.ID {
	sum := sha256.Sum256([]byte(text))
	return engine.ID{Client: max(binary.BigEndian.Uint64(sum[:8])>>16, 1),
		Seq: uint64(binary.BigEndian.Uint32(sum[8:]))}
}

// oldCooldown is a cooldown of an earlier release.
type oldCooldown struct {
	budget string // empty for the account
	until  int64
	reason string
}

// How a cooldown of an earlier release says that an account has moved: it ends
// in 2200, or a second later if the account arrives.
const (
	moveUntil          = 7258118400 * 1_000_000
	movedTo, movedFrom = "moved to ", "copied from "
	moveID             = " (ration ledger copy "
)

// record returns the cooldown as a record, or nil if it is over. That of a move
// becomes a moved record.
func (c *oldCooldown) record(now int64) *engine.Record {
	if c.until <= now || strings.HasPrefix(c.budget, reserved) {
		return nil
	}
	r := &engine.Record{Kind: engine.KindCooldown, At: now, Kept: true,
		Name: c.budget, Until: c.until, Text: c.reason,
		ID: hashedID(fmt.Sprintf("cooldown %q %d %q", c.budget, c.until, c.reason))}
	to, hasLeft := strings.CutPrefix(c.reason, movedTo)
	from, arrives := strings.CutPrefix(c.reason, movedFrom)
	isEndless := c.budget == "" && c.until >= moveUntil
	if isMove := isEndless && (hasLeft || arrives); !isMove {
		return r
	}
	r.Kind = engine.KindMoved
	r.Until = 0
	r.Text = to
	if arrives {
		r.Name, r.Text = engine.Arriving, from
	}
	r.Text, _, _ = strings.Cut(r.Text, moveID)
	return r
}
