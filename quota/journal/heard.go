package journal

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// refusalEvery is how often a process writes what refusals say, if it is
// the same.
const refusalEvery = time.Second

// noteRefusals writes how much the budgets held that refused requests of a
// batch, and the log's newest entry. A host that others have left nothing must
// know it when the ledger is down, or has forgotten that.
func (l *Ledger) noteRefusals(a *account, batch *quota.Batch, answers []quota.Answer) {
	if batch.Key != "" {
		return
	}
	var records []record
	var last quota.Receipt               // the log's newest entry
	newest := batch.Known.At.UnixMicro() // of the entries that the ledger is known to have counted
	for i := range answers {
		newest = max(newest, answers[i].Receipt.At.UnixMicro())
		r, ok := errors.AsType[*quota.RefusedError](answers[i].Err)
		if !ok || r.Used == 0 || r.Ahead != 0 {
			continue
		}
		charge := chargeOf(&batch.Requests[i], r.Budget)
		if charge == nil {
			continue
		}
		limit := r.Limit + charge.Beside
		if charge.Window.Estimate() || r.Used > limit && charge.Config.Name == "" {
			continue // without a Config others may have a higher limit, and how much is of notes is not known
		}
		now := r.RetryAt.Add(-r.RetryAfter).UnixMicro() // an entry with this timestamp may have followed
		h := hearing{at: max(now-1, newest), used: r.Used}
		if a.isNews(r.Budget, said{h, answers[i].Receipt, a.files.settles.Load()}) {
			last = answers[i].Receipt
			records = append(records, record{kind: refused, at: h.at, epoch: answers[i].Receipt.Epoch, units: limit, heard: []use{{l.heardName(a.name, r.Budget), h.used}}})
		}
	}
	if len(records) == 0 {
		return
	}
	l.appendHeard(a, records, last)
}

// appendHeard writes what was heard without a grant. The last record says what
// the log's newest entry is, if that came to the log after what the host knows.
func (l *Ledger) appendHeard(a *account, records []record, newest quota.Receipt) {
	last := &records[len(records)-1]
	known, err := a.readNewest()
	if err == nil && newest.ID != (quota.ID{}) && known.cameBefore(newest.At.UnixMicro()) {
		last.id, last.skew = newest.ID, newest.At.UnixMicro()-last.at
	}
	err = a.files.append(false, records...)
	a.mu.Lock()
	a.newest.update(last)
	a.mu.Unlock()
	l.written(a, err)
}

// noteRepeated asks what the budgets hold of which a repeated batch says
// nothing, since the answer that said it was lost, and writes it, if the log
// that was asked still has the grant: it may be lost by then. Without an answer
// to that, the host hears it with its next grant.
func (l *Ledger) noteRepeated(ctx context.Context, a *account, batch *quota.Batch, answers []quota.Answer) {
	var unheard []*quota.Charge
	var newest quota.Receipt
	for i := range answers {
		if answers[i].Err != nil || len(answers[i].Held) > 0 {
			continue
		}
		if receipt := answers[i].Receipt; receipt.At.After(newest.At) {
			newest = receipt
		}
		for _, charge := range batch.Requests[i].Charges {
			isSame := func(c *quota.Charge) bool { return c.Budget == charge.Budget }
			if !charge.Window.Estimate() && !slices.ContainsFunc(unheard, isSame) {
				unheard = append(unheard, charge)
			}
		}
	}
	if len(unheard) == 0 || batch.Key != "" {
		return
	}
	// Locked, no other process restores the grant between the two questions.
	_ = a.files.locked(ctx, lockPatience, func() error {
		standings, err := l.Ledger.Standings(ctx, batch.Account, "", unheard)
		if err != nil {
			return err
		}
		if held, err := l.holds(ctx, newest); !held {
			return err
		}
		records := make([]record, len(standings))
		for i, s := range standings {
			at := max(s.At.UnixMicro()-1, newest.At.UnixMicro()) // an entry with the timestamp At may have followed
			records[i] = record{kind: refused, at: at, epoch: newest.Epoch, units: unheard[i].Limit + unheard[i].Beside, heard: []use{{l.heardName(a.name, unheard[i].Budget), s.Used}}}
		}
		last, err := l.newestEntry(ctx, a.name)
		l.appendHeard(a, records, last) // without last, the host looks for its grant
		return err
	})
}

// newestEntry returns the newest entry of a log that no restoration removes, or
// zero.
func (l *Ledger) newestEntry(ctx context.Context, account string) (newest quota.Receipt, err error) {
	for e, err := range l.Ledger.Entries(ctx, quota.Query{Account: account, Newest: true}) {
		if err != nil {
			return newest, err
		}
		if e.Kind != quota.EntryNote {
			return quota.Receipt{ID: e.ID, At: e.At}, nil
		}
	}
	return newest, nil
}

// holds reports whether the log of an account has an entry.
func (l *Ledger) holds(ctx context.Context, known quota.Receipt) (bool, error) {
	query := quota.Query{Account: known.Account, Since: known.At, Until: known.At.Add(time.Microsecond)}
	for e, err := range l.Ledger.Entries(ctx, query) {
		if err != nil {
			return false, err
		}
		if e.ID.Client == known.ID.Client && uint32(e.ID.Seq) == uint32(known.ID.Seq) { // Redis keeps 32 bits
			return true, nil
		}
	}
	return false, nil
}

// said is what a refusal said, the log's newest entry, and the number of
// settled calls in the journal then.
type said struct {
	hearing
	newest  quota.Receipt
	settles uint64
}

// isSame reports whether s says nothing that was not written with last. What
// was settled since changes what the earlier one means.
func (s *said) isSame(last *said) bool {
	isSameLog := s.newest == last.newest && s.settles == last.settles
	return isSameLog && s.used == last.used && s.at-last.at < refusalEvery.Microseconds()
}

// isNews reports whether a refusal says something that was not written, and
// notes that it is.
func (a *account) isNews(budget string, s said) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, known := a.refused[budget]; known && s.isSame(&last) {
		return false
	}
	if a.refused == nil {
		a.refused = map[string]said{}
	}
	a.refused[budget] = s
	return true
}

// chargeOf returns the charge of a budget, or nil.
func chargeOf(r *quota.Request, budget string) *quota.Charge {
	for _, charge := range r.Charges {
		if charge.Budget == budget {
			return charge
		}
	}
	return nil
}

// heardIn returns how much each budget held when the newest of a batch's grants
// that it covers was granted.
func (l *Ledger) heardIn(batch *quota.Batch, answers []quota.Answer) (heard []use) {
	var since []time.Time // of heard
	for i := range answers {
		if answers[i].Err != nil {
			continue
		}
		at := answers[i].Receipt.At
		for n, held := range answers[i].Held {
			charge := batch.Requests[i].Charges[n]
			if charge.Window.Estimate() {
				continue
			}
			name := l.heardName(batch.Account, charge.Budget)
			known := slices.IndexFunc(heard, func(u use) bool { return u.budget == name })
			switch {
			case known < 0:
				heard, since = append(heard, use{name, held.Used}), append(since, at)
			case at.After(since[known]):
				heard[known].used, since[known] = held.Used, at
			}
		}
	}
	return heard
}
