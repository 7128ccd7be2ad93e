package engine

import (
	"context"
	"slices"
	"strconv"
)

// addOwn adds what a process appends beside what it is asked: voids of what was
// in doubt, its limits, and what must outlive the batches that are trimmed.
func (a *Account) addOwn(d *decision) {
	for _, id := range a.doubtful {
		if !slices.ContainsFunc(d.records, func(r *Record) bool { return r.ID == id }) {
			d.add(&Record{Kind: KindVoid, Ref: id})
		}
	}
	a.announceHorizon(d)
	if !d.strict { // it may be appended though others need more of the log by now
		return
	}
	if d.trim = a.trimmable(d); d.trim > 0 {
		for _, r := range a.fold.control.live(d.trim, d.now) {
			d.add(r)
		}
	}
}

// limitHolds is how long a limit holds once it was announced, at least, and
// limitRenewed how often it is announced.
const (
	limitHolds   = 24 * 60 * 60 * 1_000_000
	limitRenewed = 15 * 60 * 1_000_000
)

// announce adds the limits of the configurations whose budgets are asked,
// unless the log has had them lately.
func (a *Account) announce(d *decision) {
	var announced []*Budget // of which those by key have several gauges
	for _, g := range d.asked {
		b := g.budget
		if b.Config == "" {
			continue
		}
		held := a.fold.control.limits[limitID{b.Identity, b.Config}]
		isOlder := held.Until > d.now && held.Value > b.Changed
		if isOlder || slices.Contains(announced, b) {
			continue
		}
		announced = append(announced, b)
		a.announceRecord(d, &Record{Name: b.Identity, Owner: b.Config, Amounts: Amounts{Units: b.Limit},
			Value: b.Changed,
			Text:  b.packKeys()})
	}
}

// announceHorizon adds how far back the budgets and histories of this process
// need the log.
func (a *Account) announceHorizon(d *decision) {
	longest := d.history
	for _, g := range d.asked {
		longest = max(longest, g.budget.horizon())
	}
	isDue := longest > a.horizon || d.now-a.horizonAt > limitRenewed
	if a.horizon = max(a.horizon, longest); !isDue || a.horizon == 0 {
		return
	}
	if a.fold.control.retention(d.now+limitHolds) >= a.horizon {
		a.horizonAt = d.now // the log says so
		return
	}
	// Each horizon has an owner of its own, so that a shorter one that is
	// announced later does not take the place of a longer one.
	a.announceRecord(d, &Record{Owner: strconv.FormatInt(a.horizon, 36), Value: a.horizon})
}

// announceRecord adds a limit, unless it holds for long enough.
func (a *Account) announceRecord(d *decision, r *Record) {
	held := a.fold.control.limits[limitID{r.Name, r.Owner}]
	isEqual := held.Amounts.Units == r.Amounts.Units && held.Value == r.Value && held.Text == r.Text
	if isEqual && held.Until-d.now > limitHolds {
		return
	}
	r.Kind, r.Until = KindLimit, d.now+limitHolds+limitRenewed
	d.add(r)
}

// trimmable returns the newest position that no window of any process can see,
// once that is much: an eighth of the log, or 0.
func (a *Account) trimmable(d *decision) uint64 {
	f := a.fold
	const least = 16 // batches
	if len(f.marks) < least || a.horizon == 0 || f.marks[least-1].at >= d.now-a.horizon {
		return 0
	}
	longest := max(f.control.retention(d.now), a.horizon)
	oldest := d.now - longest - max(longest/8, maxLead)
	n := 0
	for n < len(f.marks) && f.marks[n].at < oldest {
		n++
	}
	if n < least || n < len(f.marks)/8 {
		return 0
	}
	f.takeBack()
	position := f.marks[n-1].position
	f.marks = slices.Clone(f.marks[n:])
	f.trim(oldest)
	return position
}

// isWrongClock reports whether timestamps are of a clock that was wrong, by the
// ledger's clock and this host's: those that the ledger has given last, or
// those of records that were restored since.
func (a *Account) isWrongClock() bool {
	latest := max(a.fold.newest, a.fold.maxStamp)
	return latest > a.clock.ledger+maxLead && a.clock.agrees(&a.engine.o)
}

// correctClock lets what is stamped ahead of the ledger's clock count at its
// present time.
func (a *Account) correctClock(ctx context.Context) error {
	d := a.newDecision()
	d.reset = true
	d.add(&Record{Kind: KindClock, Value: a.clock.ledger + maxLead, Until: a.clock.ledger})
	_, err := a.append(ctx, d)
	return err
}
