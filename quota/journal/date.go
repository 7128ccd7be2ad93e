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
// host has not, and the clock may be corrected before the ledger is back. So
// the record of the call also holds how long the host ran, which no one sets,
// and the call is dated by that before it is first restored. Its date holds for
// good: what is heard afterwards counts the call at that time.

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

// age returns how long before a moment a call within the allowance was made.
func (s *state) age(g *grant, now moment) int64 {
	if boot, since := g.made(); boot != 0 && boot == now.boot {
		return now.since - since
	}
	return now.at - g.stamp(s.skew)
}

// clocks are this host's, compared with the ledger's.
type clocks struct {
	skew  int64  // how far the host's clock is ahead, or less
	boot  uint64 // identifies the host's start; 0 if the system does not tell
	start int64  // when that was on the ledger's clock, or later
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
	at := standings[0].At.UnixMicro()
	return clocks{host - at, boot, at - since.Microseconds()}, nil
}

// lastClocks is compareClocks by what the host last heard.
func (l *Ledger) lastClocks(a *account) (c clocks, err error) {
	host := l.now().UnixMicro()
	boot, since := l.uptime()
	err = a.withState(func(s *state) error {
		c = clocks{s.skew, boot, host - s.skew - since.Microseconds()}
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

// date dates the calls that the ledger lacks, at present at the latest, and
// writes that. The caller holds the lock.
func (l *Ledger) date(a *account, s *state, c clocks) error {
	var undated []*grant
	made := map[quota.ID]int64{}
	for _, g := range s.grants {
		if g.owed && !g.dated {
			undated, made[g.id] = append(undated, g), g.stamp(c.skew)
			if boot, since := g.made(); boot != 0 && boot == c.boot {
				made[g.id] = c.start + since
			}
		}
	}
	if len(undated) == 0 {
		return nil
	}
	slices.SortFunc(undated, func(a, b *grant) int {
		return cmp.Or(cmp.Compare(made[a.id], made[b.id]), cmp.Compare(a.at, b.at), cmp.Compare(a.id.Client, b.id.Client), cmp.Compare(a.id.Seq, b.id.Seq))
	})
	records, latest := make([]record, len(undated)), l.present(c)
	for i, g := range slices.Backward(undated) {
		records[i] = record{kind: dated, at: min(made[g.id], latest), skew: c.skew, id: g.id}
		latest = records[i].at - 1
	}
	err := a.files.append(true, records...)
	for i := range records {
		s.apply(&records[i])
	}
	return err
}

// applyDate dates a call within the allowance, if its date was read.
func (s *state) applyDate(id quota.ID) {
	date, isKnown := s.dates[id]
	if g := s.grants[id]; isKnown && g != nil && g.down {
		g.at, g.hour = date.at, date.hour
		g.dated = true
	}
}
