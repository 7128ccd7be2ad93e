package usage

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Filter selects entries by name. An empty field selects all entries, and
// Unattributed those whose name is empty. The zero Filter selects all.
// A Job of Corrections selects all corrections, and the name of their job also
// selects them.
type Filter struct{ Method, Region, Job, Lane, Run string }

// Dimensions returns the names by which entries can be added up. A run is one
// process: the client of a quota.ID.
func Dimensions() []string { return []string{"run", "job", "region", "lane", "method"} }

// field returns the filter's field for a dimension.
func (f *Filter) field(dimension string) string {
	return map[string]string{"run": f.Run, "job": f.Job, "region": f.Region, "lane": f.Lane, "method": f.Method}[dimension]
}

// Selects reports whether f selects an entry.
func (f *Filter) Selects(e *quota.Entry) bool {
	p := partOf(e)
	return f.selects(&p)
}

// selects reports whether f selects the entries of a sum.
func (f *Filter) selects(s *part) bool {
	matches := func(want, has string) bool { return want == "" || want == name(has) }
	isRun := f.Run == "" || f.Run == Run(s.client)
	isJob := matches(f.Job, s.Caller.Job) || f.Job == JobOf(s.Kind, s.Caller)
	isCaller := isJob && matches(f.Region, s.Caller.Region) && matches(f.Lane, s.Caller.Lane)
	return isRun && isCaller && matches(f.Method, s.Method)
}

// nameIn returns the name of a sum's entries in a dimension.
func nameIn(dimension string, s *part) string {
	switch dimension {
	case "run":
		return Run(s.client)
	case "job":
		return JobOf(s.Kind, s.Caller)
	case "region":
		return name(s.Caller.Region)
	case "lane":
		return name(s.Caller.Lane)
	}
	return name(s.Method)
}

// Run returns the name of a client's run: the first part of its ids.
func Run(client uint64) string {
	run, _, _ := strings.Cut(quota.ID{Client: client}.String(), "-")
	return run
}

// LogReader reads entries from the logs of some accounts.
type LogReader struct {
	Ledger   quota.Log
	Accounts []string
	Since    time.Time // the earliest timestamp; zero selects from the oldest entry
	Until    time.Time // the latest timestamp, exclusive; zero selects to the newest entry
	Filter   Filter
}

// Line is an entry and the account to whose log it belongs.
type Line struct {
	quota.Entry
	Account string
}

// part is what is added up: a Sum of a ledger or, if runs are told apart, that
// of one entry, with its client.
type part struct {
	quota.Sum
	client uint64
}

func partOf(e *quota.Entry) part {
	sum := quota.Sum{Kind: e.Kind, Method: e.Method, Caller: e.Caller, Entries: 1, Units: e.Units, Calls: e.Calls, First: e.At, Last: e.At}
	return part{sum, e.ID.Client}
}

// Lines yields the selected entries of all accounts in the order of their
// timestamps and then of Accounts, or in the reverse order, newest first. It
// stops after yielding an error.
func (s *LogReader) Lines(ctx context.Context, newest bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		heads := make([]*head, 0, len(s.Accounts))
		for _, account := range s.Accounts {
			next, stop := iter.Pull2(s.Ledger.Entries(ctx, quota.Query{Account: account, Since: s.Since, Until: s.Until, Newest: newest}))
			defer stop()
			h := &head{account: account, next: next}
			heads = append(heads, h)
			h.advance(&s.Filter)
		}
		if newest {
			slices.Reverse(heads) // entries at the same time come in reverse order too
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

// head is the next selected line of one account.
type head struct {
	account string
	next    func() (quota.Entry, error, bool)
	line    Line
	err     error
	done    bool
}

// advance moves to the next line that f selects.
func (h *head) advance(f *Filter) {
	for {
		e, err, ok := h.next()
		h.line = Line{e, h.account}
		h.err = err
		h.done = !ok
		if !ok || err != nil || f.Selects(&e) {
			return
		}
	}
}

// before reports whether h's line comes before other's. Errors come first.
func (h *head) before(other *head, newest bool) bool {
	switch {
	case h.err != nil || other.err != nil:
		return other.err == nil
	case newest:
		return h.line.At.After(other.line.At)
	}
	return h.line.At.Before(other.line.At)
}

// Last returns the newest n selected lines, oldest first, and reports whether
// there are more. It reads no further back than it must.
func (s *LogReader) Last(ctx context.Context, n int) (lines []Line, more bool, err error) {
	matching, newest, err := s.count(ctx)
	if err != nil || matching == 0 {
		return nil, false, err
	}
	selected := *s
	if matching > 0 {
		selected.Until = newest.Add(time.Microsecond)
	}
	for line, err := range selected.Lines(ctx, true) {
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

// count returns how many entries the filter selects, and the newest timestamp
// of them; or -1 if that is too expensive: sums by run require reading the
// whole log.
func (s *LogReader) count(ctx context.Context) (n int64, newest time.Time, err error) {
	if s.Filter == (Filter{}) || s.Filter.Run != "" {
		return -1, newest, nil
	}
	for _, account := range s.Accounts {
		for sum, err := range s.sums(ctx, account, s.Since, s.Until, false) {
			if err != nil {
				return 0, newest, err
			}
			n += sum.Entries
			if sum.Last.After(newest) {
				newest = sum.Last
			}
		}
	}
	return n, newest, nil
}

// sums yields sums of the selected entries of an account from one time to
// another, of one entry each if runs are told apart: sums of each run would all
// be in memory, and can be as many as entries.
func (s *LogReader) sums(ctx context.Context, account string, since, until time.Time, byRun bool) iter.Seq2[part, error] {
	query := quota.Query{Account: account, Since: since, Until: until}
	return func(yield func(part, error) bool) {
		selected := func(p part, err error) bool { return err == nil && !s.Filter.selects(&p) || yield(p, err) }
		if byRun || s.Filter.Run != "" {
			for e, err := range s.Ledger.Entries(ctx, query) {
				if !selected(partOf(&e), err) {
					return
				}
			}
			return
		}
		for sum, err := range s.Ledger.Sums(ctx, query) {
			if !selected(part{Sum: sum}, err) {
				return
			}
		}
	}
}

// maxNames is the most names that Names returns for a dimension.
const maxNames = 50

// Names returns the names that occur in each dimension, in the order of their
// first entries. Of more than 50 names in a dimension it returns the first 50,
// and that of the Filter if it occurs. It leaves out runs, of which there can
// be as many as entries. Without entries the map is empty.
func (s *LogReader) Names(ctx context.Context) (map[string][]string, error) {
	var sums []part
	for _, account := range s.Accounts {
		for sum, err := range s.Ledger.Sums(ctx, quota.Query{Account: account, Since: s.Since, Until: s.Until}) {
			if err != nil {
				return nil, err
			}
			sums = append(sums, part{Sum: sum})
		}
	}
	slices.SortFunc(sums, func(x, y part) int { return x.First.Compare(y.First) })
	names := map[string][]string{}
	for i := range sums {
		for _, dimension := range Dimensions()[1:] { // without run
			n := nameIn(dimension, &sums[i])
			if job := name(sums[i].Caller.Job); dimension == "job" && job == s.Filter.Job {
				n = job // of corrections, which it selects
			}
			isListed := len(names[dimension]) < maxNames || n == s.Filter.field(dimension)
			if isListed && !slices.Contains(names[dimension], n) {
				names[dimension] = append(names[dimension], n)
			}
		}
	}
	return names, nil
}

// Unknown returns the first dimension of names, in alphabetical order, for
// which the filter's name is not among them, with that name, and whether there
// is one.
func (f *Filter) Unknown(names map[string][]string) (dimension, unknown string, found bool) {
	for _, dimension := range slices.Sorted(maps.Keys(names)) {
		if name := f.field(dimension); name != "" && !slices.Contains(names[dimension], name) {
			return dimension, name, true
		}
	}
	return "", "", false
}
