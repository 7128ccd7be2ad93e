package usage

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// LargestCaller is who spent most: the job, lane, region or key that explains
// most of an amount.
type LargestCaller struct {
	By    string      `json:"by"` // one of Dimensions, or empty: of calls without any name
	Name  string      `json:"name"`
	Lane  string      `json:"lane,omitempty"` // of a job whose calls are all of one lane
	Units quota.Units `json:"units"`
}

// String names it: the backfill job rebuild-history.
func (l *LargestCaller) String() string {
	if l.By == "" {
		return "calls without a name"
	}
	lane := ""
	if l.Lane != "" {
		lane = human.Name(l.Lane) + " "
	}
	return fmt.Sprintf("the %s%s %s", lane, l.By, human.Name(l.Name))
}

// spenders are the amounts of callers and keys.
type spenders map[spender]quota.Units

// add adds what entries of a kind spent. The job of corrections is Corrections.
func (all spenders) add(kind quota.EntryKind, caller quota.Caller, key string, n quota.Units) {
	if kind == quota.EntryCorrection {
		caller.Job = Corrections
	}
	all[spender{caller, key}] += n
}

type spender struct {
	caller quota.Caller
	key    string
}

// nearly is the part of the most that a narrower name must have spent to be
// told instead of a wider one.
const nearly = 0.9

// ofKey returns what calls with a key spent, or those without one.
func (all spenders) ofKey(key string) spenders {
	found := spenders{}
	for w, n := range all {
		if w.key == key {
			found[spender{caller: w.caller}] += n
		}
	}
	return found
}

// largest returns who spent most. That all are of one lane or region tells
// nothing, unless nothing else is known. It is zero if nothing has a name.
func (all spenders) largest() LargestCaller {
	found := all.most(false)
	if found.By == "" {
		found = all.most(true)
	}
	if nameless := all[spender{}]; found.By != "" && nameless > found.Units {
		return LargestCaller{Units: nameless}
	}
	return found
}

func (all spenders) most(always bool) (found LargestCaller) {
	for _, by := range []struct {
		name  string
		isWho bool // it says who it was even if all are of one
		of    func(*spender) string
	}{ // the narrower the later
		{"lane", false, func(w *spender) string { return w.caller.Lane }},
		{"region", false, func(w *spender) string { return w.caller.Region }},
		{"job", true, func(w *spender) string { return w.caller.Job }},
		{"key", true, func(w *spender) string { return w.key }},
	} {
		sums := map[string]quota.Units{}
		for w, n := range all {
			sums[by.of(&w)] += n
		}
		tellsApart := len(sums) > 1 || always || by.isWho
		delete(sums, "")
		for _, name := range slices.Sorted(maps.Keys(sums)) {
			isNarrower := by.name != found.By && float64(sums[name]) >= nearly*float64(found.Units)
			if isMore := sums[name] > found.Units; tellsApart && (isMore || isNarrower) {
				found = LargestCaller{By: by.name, Name: name, Units: sums[name]}
			}
		}
	}
	if found.By == "job" {
		found.Lane = all.laneOf(found.Name)
	}
	return found
}

// laneOf returns the lane of a job's calls, or "" if they have several.
func (all spenders) laneOf(job string) (lane string) {
	for w := range all {
		switch {
		case w.caller.Job != job:
		case lane != "" && w.caller.Lane != lane:
			return ""
		default:
			lane = w.caller.Lane
		}
	}
	return lane
}
