package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

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
	skew, err := l.skew(ctx, a)
	r := record{kind: stamped, at: l.now().UnixMicro() - skew}
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
	var ahead []*record
	for _, g := range s.grants {
		if g.hour != r.hour {
			continue
		}
		g.back = min(g.back, r.at)
		if g.at > r.at {
			ahead = append(ahead, &g.record)
		}
	}
	slices.SortFunc(ahead, func(a, b *record) int {
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.id.Client, b.id.Client), cmp.Compare(a.id.Seq, b.id.Seq))
	})
	for i, g := range ahead {
		g.at = r.at - int64(i)
	}
	for id, d := range s.doubts {
		if d.hour == r.hour {
			d.at = min(d.at, r.at)
			s.doubts[id] = d
		}
	}
	for of, h := range s.heard {
		if h.hour == r.hour {
			h.at = min(h.at, r.at)
			s.heard[of] = h
		}
	}
	for i := range s.visits {
		if v := &s.visits[i]; v.hour == r.hour {
			v.at = min(v.at, r.at)
		}
	}
	s.newest = min(s.newest, r.at)
}

// appendAhead appends a record to the file of the present hour, to those of
// later ones, in which a clock ahead has written, and to earlier ones that say
// something of times after it. It is on the disk when appendAhead returns.
func (f *files) appendAhead(r record) error {
	if err := f.append(true, r); err != nil {
		return err
	}
	present := f.hourOf(f.now())
	return f.eachHour(func(reader *privatefile.Reader, hour int64) error {
		if hour == present {
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
		case granted, refused, owed, doubted:
			ahead = ahead || r.at > at
		}
	})
	return ahead, err
}
