package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
)

// RealTimeLedger is a Ledger that knows whether it is on real time or on a
// test's clock. A Guard caches refusals, for up to a second, only if its ledger
// is on real time. A decorator implements RealTimeLedger by calling the
// function RealTime with the ledger that it wraps.
type RealTimeLedger interface {
	Ledger
	// RealTime reports whether the ledger's clock is real.
	RealTime() bool
}

// RealTime reports whether l is a RealTimeLedger on real time.
func RealTime(l Ledger) bool {
	real, ok := l.(RealTimeLedger)
	return ok && real.RealTime()
}

// MaxStepBack is how far a ledger's clock may step back without freeing units
// early. Timestamps that are ahead of the clock by no more are not reported.
const MaxStepBack = 2 * time.Minute

// MaxClockSkew is the largest difference between the clocks of a ledger and a
// host that is not worth a warning.
const MaxClockSkew = time.Minute

// MaxClockLead is how far a ledger's clock may be ahead of its caller's, unless
// the log has an entry as recent as that. See ClockError.
const MaxClockLead = 5 * time.Minute

// ClockError says that the ledger's clock is more than MaxClockLead ahead of
// the caller's and of the newest entry of the log. One of the clocks is wrong;
// if it is the ledger's, its windows would free what is still used. Nothing was
// decided and nothing was dropped. It is an ErrLedgerConfig. If it is this
// host's clock that is wrong, Guard.AcceptClock accepts the ledger's.
type ClockError struct {
	Account string
	Key     string
	Ledger  time.Time // the time on the ledger's clock
	Caller  time.Time // the time on the caller's clock
	Newest  time.Time // the timestamp of the log's newest entry; zero if there is none

	// ByUptime says that Ledger is the clock of this host too, and that Caller
	// is what it would show if it had not been set since the host's start.
	ByUptime bool

	// Upstream is the time by the upstream's latest answer to this Guard's
	// Transport; zero if it is not known. If it supports the ledger's clock,
	// calls go on, and Transport.Report gets this error.
	Upstream time.Time
}

// Error names both times and says what to do.
func (e *ClockError) Error() string {
	if e.ByUptime {
		return e.byUptime()
	}
	newest := "its log has no entry yet"
	if !e.Newest.IsZero() {
		newest = "its newest entry is of " + textfmt.Time(e.Newest)
	}
	text := fmt.Sprintf("account %q: the ledger's clock says %s and this host's %s, and %s", e.Account, textfmt.Time(e.Ledger), textfmt.Time(e.Caller), newest)
	switch {
	case e.Upstream.IsZero():
		return text + "; correct the clock that is wrong, or, if it is this host's, accept the ledger's for now (ration ledger accept)"
	case e.Ledger.Sub(e.Upstream) > MaxClockLead:
		return text + "; the upstream's says " + textfmt.Time(e.Upstream) + ": correct the ledger's"
	}
	return text + "; the upstream's says " + textfmt.Time(e.Upstream) + ": calls go on, correct this host's"
}

func (e *ClockError) byUptime() string {
	text := fmt.Sprintf("account %q: this host's clock says %s, and by the time since its start it is %s", e.Account, textfmt.Time(e.Ledger), textfmt.Time(e.Caller))
	if e.Upstream.IsZero() {
		return text + ": the call does not fit by both; correct the clock, or, if it is right, accept it (ration ledger accept)"
	}
	return text + "; the upstream's says " + textfmt.Time(e.Upstream) + ": correct this host's"
}

// Unwrap returns ErrLedgerConfig.
func (e *ClockError) Unwrap() error { return ErrLedgerConfig }

// AcceptClock accepts the ledger's clock for the logs of an account after a
// *ClockError, when this host's is the wrong one. It adds a remark of 0 units
// at the ledger's time. The remark supports the ledger's clock for
// MaxClockLead, and so does each later call. The clock of the host must still
// be corrected. A clock that is in doubt by the time since its host's start
// (ClockError.ByUptime) is accepted for good.
func (g *Guard) AcceptClock(ctx context.Context, account string) error {
	call := Call{Account: account, Method: "ledger.accept", Caller: Caller{Lane: LaneManual}}
	mode := entryMode{force: true, kind: EntryNote, anyClock: true}
	if _, err := g.spend(ctx, &call, g.chargesFor(&call), mode); err != nil {
		return err
	}
	for key, err := range g.ledger.Keys(ctx, account) {
		if err != nil {
			return opError("keys of "+account, err)
		}
		call.Key = key
		if _, err := g.spend(ctx, &call, g.chargesFor(&call), mode); err != nil {
			return err
		}
	}
	return nil
}

// Now returns the time on the ledger's clock. ahead is how far the newest
// timestamp in the account's log is ahead of it, or 0 if that is at most
// MaxStepBack; see Restamp.
func (g *Guard) Now(ctx context.Context, account string) (now time.Time, ahead time.Duration, err error) {
	standings, err := g.cooldownStandings(ctx, account, "", "")
	if err != nil {
		return now, 0, opError("ledger of "+account, err)
	}
	return standings[0].At, standings[0].Ahead, nil
}

// Restamp repairs the logs of an account after the ledger's clock was ahead:
// entries with timestamps ahead of the clock get new ones. It includes the logs
// of the account's keys, and returns how many entries it changed. The clock
// must be right again before Restamp is called.
func (g *Guard) Restamp(ctx context.Context, account string) (changed int, err error) {
	defer g.refusals.invalidate()
	changed, err = g.ledger.Restamp(ctx, account, "")
	if err != nil {
		return 0, opError("restamp "+account, err)
	}
	for key, err := range g.ledger.Keys(ctx, account) {
		if err != nil {
			return changed, opError("keys of "+account, err)
		}
		n, err := g.ledger.Restamp(ctx, account, key)
		if changed += n; err != nil {
			return changed, opError("restamp a key of "+account, err)
		}
	}
	return changed, nil
}
