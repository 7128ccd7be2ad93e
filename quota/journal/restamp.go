package journal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Restamp implements quota.Ledger. It notes in the journal that the stamps of a
// clock ahead are of the present, so that a later loss does not take them for the
// time of calls. The journals of other hosts do not learn of it.
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

// restamp gives what the log's clock has stamped ahead, as far as it was read from
// the same file, the stamps of the last microseconds until r.at, in its order.
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
