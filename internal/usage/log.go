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
// A Job or Host of Corrections selects all corrections, and the name of their
// job or host also selects them.
type Filter struct{ Method, Region, Job, Lane, Run, Key, Host string }

// Dimensions returns the names by which entries can be added up. A run is one
// process: the client of a quota.ID.
func Dimensions() []string { return []string{"run", "job", "region", "lane", "method", "key", "host"} }

// Field returns the filter's field for one of Dimensions, and nil for any other
// word.
func (f *Filter) Field(dimension string) *string {
	fields := []*string{&f.Run, &f.Job, &f.Region, &f.Lane, &f.Method, &f.Key, &f.Host} // as Dimensions
	if i := slices.Index(Dimensions(), dimension); i >= 0 {
		return fields[i]
	}
	return nil
}

// Selects reports whether f selects an entry.
func (f *Filter) Selects(e *quota.Entry) bool {
	matches := func(want, has string) bool { return want == "" || want == name(has) }
	isRun := f.Run == "" || f.Run == Run(e.ID.Client)
	isJob := matches(f.Job, e.Caller.Job) || f.Job == Spender(e.Kind, e.Caller.Job)
	isCaller := isJob && matches(f.Region, e.Caller.Region) && matches(f.Lane, e.Caller.Lane)
	isHost := matches(f.Host, e.Host) || f.Host == Spender(e.Kind, e.Host)
	isCall := isHost && matches(f.Method, e.Method) && matches(f.Key, e.Key)
	return isRun && isCaller && isCall
}

// nameIn returns the name of an entry in a dimension.
func nameIn(dimension string, e *quota.Entry) string {
	switch dimension {
	case "run":
		return Run(e.ID.Client)
	case "job":
		return Spender(e.Kind, e.Caller.Job)
	case "region":
		return name(e.Caller.Region)
	case "lane":
		return name(e.Caller.Lane)
	case "key":
		return name(e.Key)
	case "host":
		return Spender(e.Kind, e.Host)
	}
	return name(e.Method)
}

// Run returns the name of a client's run: the first part of its ids.
func Run(client uint64) string {
	run, _, _ := strings.Cut(quota.ID{Client: client}.String(), "-")
	return run
}

// LogReader reads entries from the logs of some accounts.
type LogReader struct {
	Guard    *quota.Guard
	Accounts []string
	// the earliest timestamp; zero selects from the oldest entry of the log, and others also what
	// this host's copy still has
	Since  time.Time
	Until  time.Time // the latest timestamp, exclusive; zero selects to the newest entry
	Filter Filter
}

// Line is an entry and the account to whose log it belongs.
type Line struct {
	quota.Entry
	Account string
}

// entries yields the selected entries of an account, oldest first.
func (s *LogReader) entries(ctx context.Context, account string) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		for e, err := range s.Guard.Entries(ctx, quota.Query{Account: account, Since: s.Since, Until: s.Until,
			Past: !s.Since.IsZero()}) {
			isYielded := err != nil || s.Filter.Selects(&e)
			if isYielded && !yield(e, err) {
				return
			}
		}
	}
}

// Lines yields the selected entries of all accounts in the order of their
// timestamps and then of Accounts, or in the reverse order, newest first. It
// stops after yielding an error.
func (s *LogReader) Lines(ctx context.Context, newest bool) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var lines []Line
		for _, account := range s.Accounts {
			for e, err := range s.entries(ctx, account) {
				if err != nil {
					yield(Line{}, err)
					return
				}
				lines = append(lines, Line{e, account})
			}
		}
		slices.SortStableFunc(lines, func(x, y Line) int { return x.At.Compare(y.At) })
		if newest {
			slices.Reverse(lines)
		}
		for _, line := range lines {
			if err := ctx.Err(); err != nil {
				yield(Line{}, err)
				return
			}
			if !yield(line, nil) {
				return
			}
		}
	}
}

// Last returns the newest n selected lines, oldest first, and reports whether
// there are more.
func (s *LogReader) Last(ctx context.Context, n int) (lines []Line, more bool, err error) {
	for line, err := range s.Lines(ctx, true) {
		if err != nil {
			return nil, false, err
		}
		if more = len(lines) == n; more {
			break
		}
		lines = append(lines, line)
	}
	slices.Reverse(lines)
	return lines, more, nil
}

// maxNames is the most names that Names returns for a dimension.
const maxNames = 50

// Names returns the names that occur in each dimension, in the order of their
// first entries. Of more than 50 names in a dimension it returns the first 50,
// and that of the Filter if it occurs. It leaves out runs, of which there can
// be as many as entries. Without entries the map is empty.
func (s *LogReader) Names(ctx context.Context) (map[string][]string, error) {
	var entries []quota.Entry // the first one of each name
	for _, account := range s.Accounts {
		for sum, err := range s.Guard.Sums(ctx, quota.Query{Account: account, Since: s.Since, Until: s.Until,
			Past: !s.Since.IsZero()}) {
			if err != nil {
				return nil, err
			}
			entries = append(entries, quota.Entry{At: sum.First, Kind: sum.Kind, Method: sum.Method, Caller: sum.Caller,
				Host: sum.Host})
		}
	}
	slices.SortStableFunc(entries, func(x, y quota.Entry) int { return x.At.Compare(y.At) })
	names := map[string][]string{}
	for i := range entries {
		for _, dimension := range Dimensions()[1:] { // without run
			n := nameIn(dimension, &entries[i])
			own := map[string]string{"job": name(entries[i].Caller.Job), "host": name(entries[i].Host)}[dimension]
			if own != "" && own == *s.Filter.Field(dimension) {
				n = own // of corrections, which it selects
			}
			isListed := len(names[dimension]) < maxNames || n == *s.Filter.Field(dimension)
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
		if name := *f.Field(dimension); name != "" && !slices.Contains(names[dimension], name) {
			return dimension, name, true
		}
	}
	return "", "", false
}
