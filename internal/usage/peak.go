package usage

import (
	"context"
	"iter"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// maxPeakEntries is the most entries that one Fill of an account reads
// for peaks.
const maxPeakEntries = 200_000

// findPeaks sets the most that the window held on each day, as far as entries
// have come since the last Fill. It reads these entries, and those that left
// the window meanwhile, but no more than maxPeakEntries in one Fill: of a long
// log that was not read for a while, a peak may be too low.
func (s *series) findPeaks(ctx context.Context, f *filler) error {
	if kind := s.window.Kind(); kind != engine.Sliding && kind != engine.Calendar || f.oldest >= f.until {
		return nil
	}
	window := s.window
	if window.Kind() == engine.Calendar { // within the margins, it holds the day before too
		window = window.WithMargin(0)
	}
	from := time.UnixMicro(max(s.before.Until, f.oldest))
	begin := window.Since(from, 0)
	held := int64(0)
	for sum, err := range f.guard.Sums(ctx, quota.Query{Account: f.account, Since: begin, Until: from}) {
		if err != nil {
			return err
		}
		held += s.amount(sum.Method, sum.Caller, sum.Amounts())
	}
	until := time.UnixMicro(f.until)
	next, stop := iter.Pull2(f.guard.Entries(ctx, quota.Query{Account: f.account, Since: begin, Until: until}))
	defer stop()
	tail, err, more := next()
	leave := func(since time.Time) { // what no longer counts
		for more && err == nil && tail.At.Before(since) {
			f.peakEntries++
			held -= s.amount(tail.Method, tail.Caller, tail.Amounts())
			tail, err, more = next()
		}
	}
	present := int64(-1)
	for e, failed := range f.guard.Entries(ctx, quota.Query{Account: f.account, Since: from, Until: until}) {
		if failed != nil {
			return failed
		}
		if f.peakEntries++; f.peakEntries > maxPeakEntries {
			break
		}
		n := s.amount(e.Method, e.Caller, e.Amounts())
		if n == 0 {
			continue
		}
		day, _, _ := s.slice(e.At.UnixMicro())
		if day != present { // what the day began with
			present = day
			if start := time.UnixMilli(day); start.After(from) {
				leave(window.Since(start, 0))
				s.peaks[day] = max(s.peaks[day], held)
			}
		}
		leave(window.Since(e.At, 0))
		held += n
		s.peaks[day] = max(s.peaks[day], held)
	}
	return err
}

// amount returns what the budget counts of an entry or a sum.
func (s *series) amount(method string, caller quota.Caller, amounts quota.Amounts) int64 {
	if !s.coverage.Covers(method, caller.Lane, caller.Region) {
		return 0
	}
	return int64(amounts.Of(quota.Measure(s.coverage.Measure)))
}
