package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// restorePatience is the longest wait for another process of the host that
// restores. Tests shorten it.
var restorePatience = 30 * time.Second

// RestoredError says that the ledger was restored from this host's journal.
type RestoredError struct {
	Account string
	Owed    quota.Units           // what this host had spent within the allowance
	Lost    *quota.ForgottenError // how the loss was noticed; nil if the ledger was only down

	// Unknown means that the answer of an earlier try was lost, which says
	// what the ledger lacked; RestoreResult is empty.
	Unknown bool

	quota.RestoreResult
}

// Error says what was restored.
func (e *RestoredError) Error() string {
	isOwn := max(e.Units, e.Owed) > 0
	if e.Lost == nil && !isOwn && e.Noted > 0 {
		return fmt.Sprintf("account %q: the ledger had lost entries, and another file restored it; what others had spent of the budgets of this one is noted now, units: %d", e.Account, e.Noted)
	}
	if e.Lost == nil {
		return fmt.Sprintf("account %q: what was spent while the ledger was down is recorded now, units: %d", e.Account, max(e.Owed, e.Units))
	}
	if e.Unknown {
		return fmt.Sprintf("%v; restored from this host's journal, but the answer that said how much was lost; other hosts restore their own when they return", e.Lost)
	}
	outage := ""
	if e.Owed > 0 {
		outage = fmt.Sprintf(" (%d of them spent while the ledger was down)", e.Owed)
	}
	lost := e.Lost.Error()
	if e.Damaged != "" {
		lost = fmt.Sprintf("the ledger of account %q could not be read, and is kept as %s; check the disk, then remove it", e.Account, e.Damaged)
	}
	return fmt.Sprintf("%s; restored from this host's journal: entries: %d, units: %d%s, noted of others' units: %d; other hosts restore their own when they return",
		lost, e.Entries, e.Units, outage, e.Noted)
}

// The figures of a restoration, in the place of what a grant heard of budgets.
const (
	repairedEntries = "entries"
	repairedNoted   = "noted"
	repairedLost    = "lost"
	repairedSince   = "since" // microseconds from Known to RestoreResult.Since
)

// record returns what the journal keeps of a restoration at a time.
func (e *RestoredError) record(now time.Time) record {
	r := record{kind: restored, at: e.Known.At.UnixMicro(), id: e.Known.ID, epoch: e.Known.Epoch, units: e.Units,
		heard: []use{{repairedEntries, quota.Units(e.Entries)}, {repairedNoted, e.Noted}}}
	if e.Lost != nil {
		r.heard = append(r.heard, use{repairedLost, 1})
	}
	r.skew = now.UnixMicro() - r.at
	r.calls = quota.Units(max(0, e.Newest.UnixMicro()-r.at))
	if since := quota.Units(max(0, e.Since.UnixMicro()-r.at)); !e.Since.IsZero() && since < r.calls {
		r.heard = append(r.heard, use{repairedSince, since})
	}
	return r
}

// Repair is a restoration of the ledger from this host's journal.
type Repair struct {
	Account string      `json:"account"`
	At      time.Time   `json:"at"`          // on this host's clock
	Lost    bool        `json:"lost"`        // the ledger had forgotten; otherwise it had been down
	Entries int         `json:"entries"`     // calls that it lacked
	Units   quota.Units `json:"units"`       // of these
	Noted   quota.Units `json:"noted_units"` // what others had spent, as far as this host had heard
}

func (r *record) repair(account string) Repair {
	p := Repair{Account: account, At: decide.Time(r.at + r.skew), Units: r.units}
	for _, u := range r.heard {
		switch u.budget {
		case repairedEntries:
			p.Entries = int(u.used)
		case repairedNoted:
			p.Noted = u.used
		case repairedLost:
			p.Lost = true
		}
	}
	return p
}

// Repairs returns the restorations of an account by this host in the last
// 24 hours that changed the ledger, oldest first. It writes nothing and
// creates nothing.
func (l *Ledger) Repairs(account string) (repairs []Repair, err error) {
	since := l.now().Add(-window)
	err = l.account(account).files.scan(since, restored, func(done *record) {
		r := done.repair(account)
		isChange := r.Units > 0 || r.Entries > 0 || r.Noted > 0
		if isChange && r.At.After(since) {
			repairs = append(repairs, r)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("repairs of %s: %w", account, err)
	}
	return repairs, nil
}

// Missing returns the time of the newest grant that this host knows, if the
// ledger lacks it: it has forgotten, and the next call restores what this host
// knows. Otherwise it is zero, and so it is for an account without a log, all
// of whose windows are estimates, and for a grant that no window can see any
// more. A Ledger without an inner one, or whose file is lost, lacks everything.
// Missing writes nothing and creates nothing.
func (l *Ledger) Missing(ctx context.Context, account string) (granted time.Time, err error) {
	a := l.account(account)
	known, err := l.newestGrant(a)
	if err != nil || known.ID == (quota.ID{}) {
		return time.Time{}, err
	}
	skew, err := a.hostSkew()
	age := l.now().Add(-skew).Sub(known.At)
	if err != nil || age >= l.sees(account) || age < -quota.MaxStepBack { // ahead: of a wrong clock, and perhaps restamped
		return time.Time{}, err
	}
	if l.Ledger == nil {
		return known.At, nil
	}
	if held, err := l.holds(ctx, known); held || err != nil && !errors.Is(err, quota.ErrLedgerLost) {
		return time.Time{}, err
	}
	return known.At, nil
}

// hostSkew returns how far the host's clock is ahead of the ledger's, as the
// newest grant says.
func (a *account) hostSkew() (skew time.Duration, err error) {
	newest, err := a.readNewest()
	if newest.kind == granted || err != nil {
		return time.Duration(newest.skew) * time.Microsecond, err
	}
	err = a.withState(func(s *state) error { skew = time.Duration(s.skew) * time.Microsecond; return nil })
	return skew, err
}

// sees returns how far back the windows of an account see that need a log.
func (l *Ledger) sees(account string) (farthest time.Duration) {
	for _, charge := range l.budgets[account] {
		if !charge.Window.Estimate() {
			farthest = max(farthest, charge.Window.Horizon())
		}
	}
	return farthest
}

// Unwrap returns the *quota.ForgottenError, if there is one.
func (e *RestoredError) Unwrap() error {
	if e.Lost == nil {
		return nil
	}
	return e.Lost
}

// UnwrittenError says that the journal could not be read or written. The ledger
// has the calls.
type UnwrittenError struct {
	Account string
	Err     error
}

// Error says what is at stake.
func (e *UnwrittenError) Error() string {
	return fmt.Sprintf("account %q: the journal of this host: %v; calls go on, but cannot be restored if the ledger forgets them", e.Account, e.Err)
}

// Unwrap returns Err.
func (e *UnwrittenError) Unwrap() error { return e.Err }

// restore restores the ledger from the journal, because it lacks calls of this
// host, or has forgotten. caller is the host's time, or zero for a ledger whose
// clock is accepted.
func (l *Ledger) restore(ctx context.Context, a *account, lost *quota.ForgottenError, caller time.Time) error {
	report := &RestoredError{Account: a.name, Lost: lost}
	clocks, err := l.compareClocks(ctx, a)   // first, to hold up no other process of the host while the ledger is down
	if errors.Is(err, quota.ErrLedgerLost) { // Restore creates it again
		clocks, err = l.lastClocks(a)
	}
	if err != nil {
		return err
	}
	clocks.caller = caller
	err = a.files.locked(ctx, restorePatience, func() error {
		if lost == nil && !a.files.isOwed() {
			return a.files.setOwed(false) // another process was faster
		}
		if known, err := l.newestGrant(a); lost != nil && known.Epoch != lost.Known.Epoch && err == nil {
			return nil // another caller was, since this one asked
		}
		misses, err := l.restoreOnce(ctx, a, lost != nil, clocks, report)
		for misses && err == nil {
			misses, err = l.restoreOnce(ctx, a, false, clocks, report)
		}
		return err
	})
	if err != nil {
		return explainFailure(a.name, err)
	}
	if report.Entries > 0 || report.Noted > 0 || report.Unknown {
		l.restored(a, report)
	}
	return nil
}

// restoreOnce restores what the journal knows now. It reports whether processes
// of this host have been granted calls meanwhile that are missing. The caller
// holds the lock.
func (l *Ledger) restoreOnce(ctx context.Context, a *account, lost bool, c clocks, report *RestoredError) (misses bool, err error) {
	r, rest, err := l.collect(a, lost, c, report)
	if err != nil {
		return false, err
	}
	earlier := report.RestoreResult
	if err := l.restoreLogs(ctx, r, rest, report); err != nil {
		a.unknown.Store(a.unknown.Load() || errors.Is(err, quota.ErrInDoubt))
		return false, err
	}
	report.Entries += earlier.Entries
	report.Units += earlier.Units
	report.Damaged = cmp.Or(report.Damaged, earlier.Damaged)
	addsNothing := report.Entries == 0 && report.Noted == 0
	report.Unknown = a.unknown.Swap(false) && report.Lost != nil && addsNothing
	if err := a.files.setOwed(true); err != nil { // until nothing is known to be missing
		return false, err
	}
	err = l.setStated(a, report.Known.Epoch)
	l.written(a, err) // after an error, a process with other budgets may not restore them
	done := report.record(l.now())
	a.mu.Lock()
	a.newest.update(&done)
	a.mu.Unlock()
	records := append(dateRecords(rest.dates, report.Newest.UnixMicro()), a.learnt(r.Gaps, &report.RestoreResult)...)
	err = a.files.append(true, append(records, done)...)
	if err == nil {
		misses, err = a.misses(&rest, report.Known.Epoch)
	}
	if err == nil && !misses {
		err = a.files.setOwed(false)
	}
	l.written(a, err) // after an error, it is restored again, which changes nothing
	return misses, nil
}

// others are what is restored besides the log of an account.
type others struct {
	keyed     []*quota.Restoration
	owed      []quota.Cooldown // that the ledger does not have
	cooldowns []quota.Cooldown // to set if it has forgotten
	dates     map[quota.ID]int64
	granted   map[uint64]int // state.granted at that time
	raised    int            // state.raised at that time
}

// collect returns what the journal knows of an account. The caller holds the
// lock.
func (l *Ledger) collect(a *account, lost bool, c clocks, report *RestoredError) (r *quota.Restoration, rest others, err error) {
	client, err := clientOf(l.dir)
	if err != nil {
		return nil, rest, err
	}
	r = &quota.Restoration{Account: a.name, Lost: lost, History: a.files.farthest(), Clock: c.caller}
	if r.Known, err = l.newestGrant(a); err != nil {
		return nil, rest, err
	}
	err = a.withState(func(s *state) error {
		report.Owed = s.owed(l.moment(s))
		stays := s.stays()
		rest.dates = l.dates(s, c)
		r.Entries = s.entries("", c.skew, rest.dates)
		r.Heard = l.heard(a, s, stays, client)
		r.Lives = stays.lives(client)
		r.Gaps = slices.Clone(s.gaps)
		rest.granted, rest.raised = maps.Clone(s.granted), s.raised
		rest.owed, rest.cooldowns = s.cooldownsToSet(a.name, l.now().UnixMicro()-s.skew)
		for _, key := range s.keys() {
			rest.keyed = append(rest.keyed, &quota.Restoration{Account: a.name, Key: key, Clock: r.Clock, Entries: s.entries(key, c.skew, rest.dates),
				History: l.sees(a.name)}) // its log may be new, without windows
		}
		return nil
	})
	return r, rest, err
}

// explainFailure says why the log of an account could not be restored.
func explainFailure(account string, err error) error {
	switch {
	case errors.Is(err, errBusy):
		return fmt.Errorf("%w: restore the log of account %q: %w; try again when it has ended", quota.ErrLedgerBusy, account, err)
	case errors.Is(err, fs.ErrPermission) && !errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrLedgerConfig):
		return fmt.Errorf("%w: restore the log of account %q: %w; let this user write to the files of the journal", quota.ErrLedgerConfig, account, err)
	}
	return fmt.Errorf("restore the log of account %q: %w", account, err)
}

// restoreLogs restores the log of an account, those of its keys and cooldowns.
func (l *Ledger) restoreLogs(ctx context.Context, r *quota.Restoration, rest others, report *RestoredError) (err error) {
	if report.RestoreResult, err = l.Ledger.Restore(ctx, r); err != nil {
		return err
	}
	report.Lost = cmp.Or(report.Lost, report.Forgotten)
	for _, r := range rest.keyed {
		if _, err := l.Ledger.Restore(ctx, r); err != nil {
			return err
		}
	}
	return l.restoreCooldowns(ctx, &rest, r.Lost || report.Forgotten != nil)
}

// restored counts and reports a restoration that changed the ledger.
func (l *Ledger) restored(a *account, report *RestoredError) {
	a.restores.times.Add(1)
	a.restores.calls.Add(uint64(report.Entries))
	if l.report != nil {
		l.report(report)
	}
}

// clock returns this host's time for a Restoration, or zero if the ledger is on
// a test's clock.
func (l *Ledger) clock() time.Time {
	if !l.RealTime() {
		return time.Time{}
	}
	return l.now()
}

// clockFor returns clock, unless any clock of the ledger is right for a batch:
// quota.Guard.AcceptClock sends it.
func (l *Ledger) clockFor(batch *quota.Batch) time.Time {
	if batch.Clock.IsZero() {
		return time.Time{}
	}
	return l.clock()
}

// maxRestores is how often one spend restores a ledger that forgets again.
const maxRestores = 3

// mostHeard bounds what a restoration says a budget held, in limits of the
// budget. Without a bound it grows: hosts hear a note as they hear calls, and
// after the next loss they note it again, once for each life of the log in
// which they heard it. A note of one limit refuses every call for as long as a
// window sees it; the other nine are for a file that has a higher limit.
const mostHeard = 10

// heard returns what this host heard last of each budget of this process, in
// each life of the log.
func (l *Ledger) heard(a *account, s *state, stays stayIndex, client uint64) (all []quota.WindowUse) {
	for budget, charge := range l.budgets[a.name] {
		if charge.Window.Estimate() {
			continue
		}
		name := l.names[a.name][budget]
		if s.hasNamesakes(name) {
			budget = name
		}
		for of, h := range s.hearings(name) {
			held := func(r *record) bool { return stays.held(r.id, of.epoch, h.at) }
			used := min(h.usedBy(charge, held), mostHeard*(charge.Limit+charge.Beside), quota.MaxLimit)
			all = append(all, quota.WindowUse{Client: client, Budget: budget, Epoch: of.epoch, Coverage: charge.Coverage,
				Since: decide.Time(decide.Since(&charge.Window, h.at)), At: decide.Time(h.at), Used: used})
		}
	}
	return all
}
