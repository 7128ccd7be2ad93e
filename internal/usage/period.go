package usage

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// Period is what was spent of an account in one hour or on one day.
type Period struct {
	By       string      `json:"by"`   // hour or day
	Name     string      `json:"name"` // 2026-11-20T09:00Z, or 2026-11-20
	Account  string      `json:"account"`
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	Units    quota.Units `json:"units"`
	Calls    quota.Units `json:"calls"`
	Refusals *int64      `json:"refusals"` // on this host; nil if unknown: a log does not record them
}

// NewPeriod returns the hour or the day, of UTC, in which a time falls,
// without amounts.
func NewPeriod(by, account string, at time.Time) Period {
	length, layout := time.Hour, "2006-01-02T15:04Z"
	if by == "day" {
		length, layout = 24*time.Hour, time.DateOnly
	}
	from := at.UTC().Truncate(length)
	return Period{By: by, Name: from.Format(layout), Account: account, From: from, To: from.Add(length)}
}

// Periods adds up the selected entries by hours or days of UTC, oldest first,
// as far as the log holds them. Periods without entries are missing. A period
// at which Since or Until falls is added up in part.
func (s *LogReader) Periods(ctx context.Context, by string) ([]Period, error) {
	var all []Period
	for _, account := range s.Accounts {
		var last *Period
		for e, err := range s.entries(ctx, account) {
			if err != nil {
				return nil, err
			}
			if last == nil || !e.At.Before(last.To) {
				all = append(all, NewPeriod(by, account, e.At))
				last = &all[len(all)-1]
			}
			last.Units += e.Units
			last.Calls += e.Calls
		}
	}
	slices.SortStableFunc(all, func(x, y Period) int { return x.From.Compare(y.From) })
	return all, nil
}

// oldest returns the timestamp of the oldest entry of an account, or the zero
// time.
func (s *LogReader) oldest(ctx context.Context, account string) (time.Time, error) {
	for e, err := range s.Guard.Entries(ctx, quota.Query{Account: account, Limit: 1}) {
		return e.At, err
	}
	return time.Time{}, nil
}

// first returns the timestamp of the first entry of an account that can be
// selected, or the zero time.
func (s *LogReader) first(ctx context.Context, account string) (time.Time, error) {
	all := LogReader{Guard: s.Guard, Since: s.Since}
	for e, err := range all.entries(ctx, account) {
		return e.At, err
	}
	return time.Time{}, nil
}

// Missing returns the accounts whose logs have dropped entries, maybe of the
// time from Since on, each with the timestamp of its oldest entry, which may be
// one that this host's copy still has. retention
// says how long an account's log keeps entries, 0 if it keeps none, and now is
// the ledger's time.
func (s *LogReader) Missing(ctx context.Context, retention func(account string) time.Duration,
	now time.Time) (map[string]time.Time, error) {
	missing := map[string]time.Time{}
	if s.Since.IsZero() {
		return missing, nil
	}
	for _, account := range s.Accounts {
		kept := now.Add(-max(retention(account), engine.Retention(0)))
		if !s.Since.Before(kept) {
			continue
		}
		if dropped, err := s.dropped(ctx, account, retention(account)); err != nil {
			return nil, err
		} else if !dropped {
			continue
		}
		oldest, err := s.first(ctx, account)
		if err != nil {
			return nil, err
		}
		if oldest.IsZero() || oldest.After(kept) {
			oldest = kept // what it would still hold
		}
		if s.Since.Before(oldest) {
			missing[account] = oldest
		}
	}
	return missing, nil
}

// dropped reports whether a log has dropped its oldest entries, as one that
// keeps none may have.
func (s *LogReader) dropped(ctx context.Context, account string, keeps time.Duration) (bool, error) {
	if keeps == 0 {
		return true, nil
	}
	return s.Guard.Trimmed(ctx, account)
}
