package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// Restamp implements quota.Ledger. It notes in the journal that the stamps of a
// clock ahead are of the present, so that a later loss does not take them for
// the time of calls. The journals of other hosts do not learn of it.
func (l *Ledger) Restamp(ctx context.Context, account, key string) (changed int, err error) {
	changed, err = l.Ledger.Restamp(ctx, account, key)
	if err != nil || key != "" || l.dir == "" {
		return changed, err
	}
	a := l.account(account)
	clocks, err := l.compareClocks(ctx, a)
	r := record{kind: stamped, at: l.now().UnixMicro() - clocks.skew}
	if err == nil {
		err = a.files.appendAhead(r)
	}
	if err != nil {
		return changed, fmt.Errorf("the journal of this host does not know of it: %w; restamp again", err)
	}
	a.mu.Lock()
	a.newest.update(&r)
	a.mu.Unlock()
	return changed, nil
}

// restamp gives what the log's clock has stamped ahead, as far as it was read
// from the same file, the stamps of the last microseconds until r.at, in its
// order.
func (s *state) restamp(r *record) {
	moved := map[int64]int64{}
	s.eachTime(r.hour, func(at int64) int64 {
		if at > r.at {
			moved[at] = 0
		}
		return at
	})
	for i, at := range slices.Sorted(maps.Keys(moved)) {
		moved[at] = r.at - int64(len(moved)-1-i)
	}
	s.eachTime(r.hour, func(at int64) int64 {
		if to, isAhead := moved[at]; isAhead {
			return to
		}
		return at
	})
	s.newest = min(s.newest, r.at)
}

// eachTime replaces each time that was read from the file of an hour.
func (s *state) eachTime(hour int64, f func(int64) int64) {
	for _, g := range s.grants {
		if g.hour == hour {
			g.at, g.back = f(g.at), f(g.back)
		}
	}
	for id, d := range s.doubts {
		if d.hour == hour {
			d.at = f(d.at)
			s.doubts[id] = d
		}
	}
	for id, d := range s.dates { // their calls may be in the file of a later hour
		if d.hour == hour {
			back := f(d.at + int64(d.calls))
			d.at = f(d.at)
			d.calls = quota.Units(max(0, back-d.at))
			s.dates[id] = d
		}
	}
	for of, h := range s.heard {
		if h.hour == hour {
			h.at = f(h.at)
			s.heard[of] = h
		}
	}
	for i := range s.visits {
		if v := &s.visits[i]; v.hour == hour {
			v.at = f(v.at)
		}
	}
}

// appendAhead appends a record to the file of the present hour, to those of
// later ones, in which a clock ahead has written, and to earlier ones that say
// something of times after it. It is on the disk when appendAhead returns.
func (f *files) appendAhead(r record) error {
	if err := f.append(true, r); err != nil {
		return err
	}
	f.mu.Lock()
	latest, present := f.hour, f.hourOf(f.now())
	f.mu.Unlock()
	return f.eachHour(func(reader *privatefile.Reader, hour int64) error {
		if hour == latest { // just appended to
			return nil
		}
		if hour < present {
			if ahead, err := f.isAhead(reader, hour, r.at); err != nil || !ahead {
				return err
			}
		}
		file, err := privatefile.Append(f.path(hour))
		if err != nil {
			return err
		}
		_, err = file.Write(r.encode(nil))
		return errors.Join(err, file.Sync(), file.Close())
	})
}

// isAhead reports whether the file of an hour says something of a time after
// an instant.
func (f *files) isAhead(reader *privatefile.Reader, hour, at int64) (ahead bool, err error) {
	data, _, err := readFrom(reader, f.path(hour), 0)
	if err != nil {
		return false, err
	}
	_, err = each(data, func(r *record) {
		switch r.kind {
		case granted, refused, owed, dated, doubted:
			back := r.kind == dated && r.at+int64(r.calls) > at
			ahead = ahead || back || r.at > at
		}
	})
	return ahead, err
}
