package usage

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Filter selects entries. An empty field selects all; Unattributed selects what
// is attributed to none.
type Filter struct{ Method, Region, Job, Lane, Run string }

// Dimensions are what entries are attributed to. A run is what one process spent:
// the client of its entries' ids, as logs show it.
func Dimensions() []string { return []string{"run", "job", "region", "lane", "method"} }

// by returns what f asks of a dimension.
func (f *Filter) by(dimension string) string {
	return map[string]string{"run": f.Run, "job": f.Job, "region": f.Region, "lane": f.Lane, "method": f.Method}[dimension]
}

// selects reports whether an entry, or a sum of such entries, was asked for.
func (f *Filter) selects(s *quota.Sum) bool {
	matches := func(want, has string) bool { return want == "" || want == name(has) }
	return matches(f.Method, s.Method) && matches(f.Region, s.Caller.Region) && matches(f.Job, s.Caller.Job) && matches(f.Lane, s.Caller.Lane) &&
		(f.Run == "" || f.Run == Run(s.Client))
}

// of returns the name of a sum in a dimension.
func of(dimension string, s *quota.Sum) string {
	switch dimension {
	case "run":
		return Run(s.Client)
	case "job":
		return name(s.Caller.Job)
	case "region":
		return name(s.Caller.Region)
	case "lane":
		return name(s.Caller.Lane)
	}
	return name(s.Method)
}

// Run returns the name of a client's run, with which its ids begin.
func Run(client uint64) string {
	run, _, _ := strings.Cut(quota.ID{Client: client}.String(), "-")
	return run
}

// Source is the entries to read: those of some accounts on a ledger that were
// stamped at or after Since and that Filter selects.
type Source struct {
	Ledger   quota.Ledger
	Accounts []string
	Since    time.Time // zero: from the oldest
	Filter   Filter
}

// Line is an entry of an account's log.
type Line struct {
	quota.Entry
	Account string
}

// sum returns the line as a sum of one entry.
func (l *Line) sum() *quota.Sum {
	return &quota.Sum{Kind: l.Kind, Method: l.Method, Caller: l.Caller, Client: l.ID.Client, Entries: 1, Units: l.Units, Calls: l.Calls, First: l.At, Last: l.At}
}

// Lines yields the entries of all accounts in the order of time, oldest first or
// newest first. An error ends it.
func (s *Source) Lines(ctx context.Context, newest bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		heads := make([]*head, 0, len(s.Accounts))
		for _, account := range s.Accounts {
			next, stop := iter.Pull2(s.Ledger.Entries(ctx, quota.Query{Account: account, Since: s.Since, Newest: newest}))
			defer stop()
			h := &head{account: account, next: next}
			heads = append(heads, h)
			h.advance(&s.Filter)
		}
		if newest {
			slices.Reverse(heads) // so that reversing the lines gives those of the other order
		}
		for {
			var first *head
			for _, h := range heads {
				if !h.done && (first == nil || h.before(first, newest)) {
					first = h
				}
			}
			if first == nil || !yield(first.line, first.err) || first.err != nil {
				return
			}
			first.advance(&s.Filter)
		}
	}
}

// head is the next line of an account.
type head struct {
	account string
	next    func() (quota.Entry, error, bool)
	line    Line
	err     error
	done    bool
}

// advance goes to the next line that a filter selects.
func (h *head) advance(f *Filter) {
	for {
		e, err, ok := h.next()
		h.line, h.err, h.done = Line{e, h.account}, err, !ok
		if !ok || err != nil || f.selects(h.line.sum()) {
			return
		}
	}
}

// before reports whether a line, or an error, comes before another's.
func (h *head) before(other *head, newest bool) bool {
	switch {
	case h.err != nil || other.err != nil:
		return other.err == nil
	case newest:
		return h.line.At.After(other.line.At)
	}
	return h.line.At.Before(other.line.At)
}

// Last returns the newest n lines, oldest first, and whether there are more. It
// reads until it has them; if fewer than n match, all that match.
func (s *Source) Last(ctx context.Context, n int) (lines []Line, more bool, err error) {
	matching, err := s.count(ctx)
	if err != nil || matching == 0 {
		return nil, false, err
	}
	for line, err := range s.Lines(ctx, true) {
		if err != nil {
			return nil, false, err
		}
		if more = len(lines) == n; more {
			break
		}
		if lines = append(lines, line); int64(len(lines)) == matching {
			break
		}
	}
	slices.Reverse(lines)
	return lines, more, nil
}

// count returns how many entries the filter selects, or -1 when it would take too
// long to know: sums by run are not to be had without reading the log.
func (s *Source) count(ctx context.Context) (n int64, err error) {
	if s.Filter == (Filter{}) || s.Filter.Run != "" {
		return -1, nil
	}
	for _, account := range s.Accounts {
		for sum, err := range s.Ledger.Sums(ctx, quota.Query{Account: account, Since: s.Since}) {
			if err != nil {
				return 0, err
			}
			if s.Filter.selects(&sum) {
				n += sum.Entries
			}
		}
	}
	return n, nil
}

// Total is what one name of a dimension spent in an account.
type Total struct {
	By      string
	Name    string
	Account string
	Units   quota.Units
	Calls   quota.Units
	Share   float64 // of the units that were selected in this account, 0 to 1
	First   time.Time
	Last    time.Time
}

// Totals adds up by one of the Dimensions, who spent most first.
func (s *Source) Totals(ctx context.Context, by string) ([]Total, error) {
	t := totals{by: by}
	for _, account := range s.Accounts {
		query := quota.Query{Account: account, Since: s.Since, PerClient: by == "run" || s.Filter.Run != ""}
		for sum, err := range s.Ledger.Sums(ctx, query) {
			if err != nil {
				return nil, err
			}
			if s.Filter.selects(&sum) {
				t.add(account, &sum)
			}
		}
	}
	return t.ranked(), nil
}

// TotalsOf adds up lines as Totals does.
func TotalsOf(lines []Line, by string) []Total {
	t := totals{by: by}
	for i := range lines {
		t.add(lines[i].Account, lines[i].sum())
	}
	return t.ranked()
}

// totals adds up by a dimension.
type totals struct {
	by    string
	place map[[2]string]int // in all, by account and name
	all   []Total
}

func (t *totals) add(account string, s *quota.Sum) {
	key := [2]string{account, of(t.by, s)}
	i, known := t.place[key]
	if !known {
		if t.place == nil {
			t.place = map[[2]string]int{}
		}
		i = len(t.all)
		t.place[key] = i
		t.all = append(t.all, Total{By: t.by, Name: key[1], Account: account, First: s.First.UTC(), Last: s.Last.UTC()})
	}
	total := &t.all[i]
	total.Units, total.Calls = total.Units+s.Units, total.Calls+s.Calls
	if s.First.Before(total.First) {
		total.First = s.First.UTC()
	}
	if s.Last.After(total.Last) {
		total.Last = s.Last.UTC()
	}
}

// ranked returns the totals, who spent most first. Shares are of an account's
// own units: those of another account are another upstream's.
func (t *totals) ranked() []Total {
	whole := map[string]quota.Units{}
	for _, total := range t.all {
		whole[total.Account] += total.Units
	}
	for i := range t.all {
		if units := whole[t.all[i].Account]; units > 0 {
			t.all[i].Share = float64(t.all[i].Units) / float64(units)
		}
	}
	slices.SortFunc(t.all, func(x, y Total) int {
		return cmp.Or(cmp.Compare(y.Units, x.Units), cmp.Compare(y.Calls, x.Calls), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Account, y.Account))
	})
	return t.all
}

// maxNames bounds Names.
const maxNames = 50

// Names returns the names in each dimension of the entries that the filter could
// select from, in the order of their first entries, at most 50 each. It is empty
// when there are no entries.
func (s *Source) Names(ctx context.Context) (map[string][]string, error) {
	var sums []quota.Sum
	for _, account := range s.Accounts {
		for sum, err := range s.Ledger.Sums(ctx, quota.Query{Account: account, Since: s.Since, PerClient: s.Filter.Run != ""}) {
			if err != nil {
				return nil, err
			}
			sums = append(sums, sum)
		}
	}
	slices.SortFunc(sums, func(x, y quota.Sum) int { return x.First.Compare(y.First) })
	names := map[string][]string{}
	for i := range sums {
		for _, dimension := range Dimensions() {
			if n := of(dimension, &sums[i]); len(names[dimension]) < maxNames && !slices.Contains(names[dimension], n) {
				names[dimension] = append(names[dimension], n)
			}
		}
	}
	return names, nil
}

// Unknown returns the first dimension, in alphabetical order, of which the filter
// asks for a name that is not among names.
func (f *Filter) Unknown(names map[string][]string) (dimension, asked string, unknown bool) {
	for _, dimension := range slices.Sorted(slices.Values(Dimensions())) {
		if asked := f.by(dimension); asked != "" && !slices.Contains(names[dimension], asked) {
			return dimension, asked, true
		}
	}
	return "", "", false
}
