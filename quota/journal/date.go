package journal

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/uptime"
	"github.com/ration-dev/ration/quota"
)

// A call within the allowance has the time of the host's clock at first, less
// what that was ahead of the ledger's when the host last heard of it. A new
// host has not, and the clock may be set before the ledger is back. So the
// record of the call also holds how long the host ran, and both date the call
// when it is restored. Its date holds for good: what is heard afterwards counts
// the call at that time.

// How long the host ran when a call was made, in the place of what a grant
// heard of budgets.
const (
	madeBoot  = "boot"  // identifies the host's start
	madeSince = "since" // microseconds since
)

// made returns how long the host ran when a call was made, or 0 for the boot.
func (r *record) made() (boot uint64, since int64) {
	for _, u := range r.heard {
		switch u.budget {
		case madeBoot:
			boot = uint64(u.used)
		case madeSince:
			since = int64(u.used)
		}
	}
	return boot, since
}

func readUptime() (boot uint64, since time.Duration) {
	up := uptime.Read()
	return up.Boot, up.Since
}

// moment is a time on the ledger's clock, and how long the host ran then.
type moment struct {
	at    int64
	boot  uint64 // identifies the host's start; 0 if the system does not tell
	since int64  // microseconds
}

// record returns what the record of a call holds of the moment it was made.
func (m moment) record() []use {
	if m.boot == 0 {
		return nil
	}
	return []use{{madeBoot, quota.Units(m.boot)}, {madeSince, quota.Units(m.since)}}
}

func (l *Ledger) moment(s *state) moment {
	boot, since := l.uptime()
	return moment{l.now().UnixMicro() - s.skew, boot, since.Microseconds()}
}

// age returns how long before a moment a call was made.
func (s *state) age(g *grant, now moment) int64 {
	if boot, since := g.made(); g.down && boot != 0 && boot == now.boot {
		return now.since - since
	}
	return now.at - g.stamp(s.skew)
}

// clocks are this host's, compared with the ledger's.
type clocks struct {
	skew  int64  // how far the host's clock is ahead, or less
	boot  uint64 // identifies the host's start; 0 if calls cannot be dated by it
	start int64  // when that was on the ledger's clock, or later
	late  int64  // by how much at most

	caller time.Time // the host's, for Restoration.Clock
}

// compareClocks asks the ledger for its time.
func (l *Ledger) compareClocks(ctx context.Context, a *account) (clocks, error) {
	charge := &quota.Charge{Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 1, Window: quota.Sliding(time.Minute)}
	host := l.now().UnixMicro()
	boot, since := l.uptime()
	standings, err := l.Ledger.Standings(ctx, a.name, "", []*quota.Charge{charge})
	if err != nil {
		return clocks{}, err
	}
	_, answered := l.uptime()
	if standings[0].Doubt > 0 {
		boot = 0
	}
	at := standings[0].At.UnixMicro()
	return clocks{skew: host - at, boot: boot, start: at - since.Microseconds(), late: (answered - since).Microseconds()}, nil
}

// lastClocks is compareClocks by what the host last heard.
func (l *Ledger) lastClocks(a *account) (c clocks, err error) {
	host := l.now().UnixMicro()
	boot, since := l.uptime()
	err = a.withState(func(s *state) error {
		c = clocks{skew: s.skew, boot: boot, start: host - s.skew - since.Microseconds()}
		return nil
	})
	return c, err
}

// present returns the present time on the ledger's clock.
func (l *Ledger) present(c clocks) int64 {
	if boot, since := l.uptime(); boot != 0 && boot == c.boot {
		return c.start + since.Microseconds()
	}
	return l.now().UnixMicro() - c.skew
}

// date returns when a call that the ledger lacks was made, on its clock at
// present. The later of two times holds, since either clock may be wrong now:
// that of the host's clock, unless the host had not heard the ledger's time or
// the log would not keep it; and that by how long the host ran.
func (g *grant) date(c clocks, present int64) int64 {
	boot, since := g.made()
	canDate := boot != 0 && boot == c.boot
	at, made := g.at, min(c.start+since, present)
	switch isUnknown := g.skew == 0; {
	case isUnknown && canDate:
		return made
	case isUnknown:
		return min(g.stamp(c.skew), present)
	case canDate && at < made-c.late: // else another host can settle it by its receipt
		at = made
	}
	if at > present+quota.MaxStepBack.Microseconds() {
		return present
	}
	return at
}

// dates returns the timestamps with which the calls that the ledger lacks are
// restored. They differ.
func (l *Ledger) dates(s *state, c clocks) map[quota.ID]int64 {
	dates, present := map[quota.ID]int64{}, l.present(c)
	var calls []*grant
	for _, g := range s.grants {
		if g.owed {
			calls, dates[g.id] = append(calls, g), g.date(c, present)
		}
	}
	slices.SortFunc(calls, func(a, b *grant) int {
		return cmp.Or(cmp.Compare(dates[a.id], dates[b.id]), cmp.Compare(a.at, b.at), cmp.Compare(a.id.Client, b.id.Client), cmp.Compare(a.id.Seq, b.id.Seq))
	})
	latest := present + quota.MaxStepBack.Microseconds()
	for _, g := range slices.Backward(calls) {
		dates[g.id] = min(dates[g.id], latest)
		latest = dates[g.id] - 1
	}
	return dates
}

// dateRecords returns the records of the calls that a restoration has brought
// to a log, whose newest timestamp is then known.
func dateRecords(dates map[quota.ID]int64, newest int64) (records []record) {
	for id, at := range dates {
		records = append(records, record{kind: dated, at: at, calls: quota.Units(max(0, newest-at)), id: id})
	}
	return records
}

// applyDate dates a call within the allowance that was restored, if its date
// was read: if the host's clock was set back, it may be in an earlier file.
func (s *state) applyDate(id quota.ID) {
	date, isKnown := s.dates[id]
	g := s.grants[id]
	if !isKnown || g == nil || !g.down {
		return
	}
	if !g.dated {
		g.first = g.at
	}
	g.at, g.back = date.at, date.at+int64(date.calls)
	g.owed, g.dated = false, true
	g.hour = date.hour
}

// receiptAt returns the timestamp of the receipt of a call.
func (g *grant) receiptAt() int64 {
	if g.dated {
		return g.first
	}
	return g.at
}
