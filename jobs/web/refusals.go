package web

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/why"
)

// refusalKey identifies a refusal.
type refusalKey struct {
	at                      time.Time
	account, method, region string
}

func keyOf(r *client.Refusal) refusalKey { return refusalKey{r.At, r.Account, r.Method, r.Region} }

// isAlike reports whether two refusals are of one kind of call, for one reason.
func isAlike(a, b *client.Refusal) bool {
	if a.Method != b.Method || a.Reason != b.Reason {
		return false
	}
	return a.Region == b.Region && a.Job == b.Job
}

// refusals returns the last refusals that are known, newest first: those
// of this process, and the last one that any process with this state
// folder recorded.
func (r *reader) refusals() []*client.Refusal {
	found := r.client.RecentRefusals()
	if r.client.State() != "" {
		last, err := client.LastRefusal(r.client.State())
		isKnown := func(known *client.Refusal) bool { // or a later one that is like it
			return !known.At.Before(last.At) && isAlike(known, last)
		}
		if err == nil && last != nil && !slices.ContainsFunc(found, isKnown) {
			found = append(found, last)
		}
	}
	for _, one := range found {
		one.Message = r.options.Redact(one.Message)
	}
	slices.SortStableFunc(found, func(x, y *client.Refusal) int { return cmp.Compare(y.At.UnixNano(), x.At.UnixNano()) })
	return found
}

// readRefusals adds the last refusals: each with what a whole reading found out
// about it, or else with what follows from it alone.
func (r *reader) readRefusals(s *snapshot, known *whole) {
	for _, refusal := range r.refusals() {
		if known != nil && known.refusals[keyOf(refusal)] != nil {
			s.Refusals = append(s.Refusals, known.refusals[keyOf(refusal)])
		} else {
			s.Refusals = append(s.Refusals, why.New(refusal, s.At))
		}
	}
}

// explain asks the ledger about the refusals that were not explained yet.
func (r *reader) explain(ctx context.Context, w, last *whole) {
	for _, refusal := range r.refusals() {
		key := keyOf(refusal)
		if last != nil && last.refusals[key] != nil {
			w.refusals[key] = last.refusals[key]
			continue
		}
		e := why.New(refusal, time.Now())
		_ = e.ReadLedger(ctx, r.client) // e says what is known without the ledger, too
		w.refusals[key] = e
	}
}
