package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// Processes of a host may have different budgets of one account. Each must keep
// what the windows of all need, since the one that restores the log restores it
// for all. The file HASH.keep holds the longest horizon of any, and when a
// process with it last opened a file: "745h31m0s 2026-11-25T22:00:00Z". It
// counts for as long as what was written then is kept.

// maxKeep is the most bytes that are read of it.
const maxKeep = 64

func (f *files) keepPath() string { return filepath.Join(f.dir, f.hash+".keep") }

// retention returns how long records are kept that windows with a horizon need.
// What was heard of a window is needed for as long as the ledger keeps entries,
// and counts calls that are older by a window. The allowance needs them for its
// own window.
func retention(horizon time.Duration) time.Duration {
	horizon = max(horizon, window)
	return horizon + quota.Retention(horizon)
}

// farthest returns the longest horizon of any process of the host. It looks for
// those of others once an hour.
func (f *files) farthest() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hour := f.hourOf(f.now()); f.dir != "" && hour != f.lookedHour {
		f.others, _ = f.readKeep()
		f.lookedHour = hour
	}
	return max(f.horizon, f.others)
}

// readKeep returns what HASH.keep holds, or 0 if that does not count.
func (f *files) readKeep() (horizon time.Duration, asked time.Time) {
	text, err := privatefile.ReadFile(f.keepPath(), maxKeep)
	if err != nil {
		return 0, asked
	}
	first, second, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	horizon, err = time.ParseDuration(first)
	if err != nil || horizon < 0 || horizon > quota.MaxHistory {
		return 0, asked
	}
	asked, err = time.Parse(time.RFC3339, second)
	if err != nil || f.now().Sub(asked) > retention(horizon)+clockAhead {
		return 0, asked
	}
	return horizon.Truncate(time.Microsecond), asked
}

// stayInUse writes HASH.keep once an hour. A process whose calls are all
// refused opens no file, and its windows are in use all the same.
func (f *files) stayInUse(now time.Time) {
	if f.dir == "" || f.hourOf(now) == f.keptHour.Load() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writeKeep()
}

// writeKeep writes the horizon of this process unless another has a longer one.
// It is best effort: if two processes write at once, the other one writes again
// an hour later. The caller holds f.mu.
func (f *files) writeKeep() {
	now := f.now()
	horizon, asked := f.readKeep()
	f.others, f.lookedHour = horizon, f.hourOf(now)
	f.keptHour.Store(f.lookedHour)
	isKnown := horizon == f.horizon && f.hourOf(asked) == f.hourOf(now)
	if f.horizon < horizon || isKnown {
		return
	}
	_ = privatefile.Replace(f.keepPath(), fmt.Appendf(nil, "%s %s\n", f.horizon, now.UTC().Format(time.RFC3339)), false)
}

// removeOld removes the files that no process of the host needs. While the
// ledger lacks calls of this host there are none: the host's clock may have
// jumped ahead since. The caller holds f.mu.
func (f *files) removeOld() {
	hours, err := f.hours()
	if err != nil || f.isOwed() {
		return
	}
	keep := retention(max(f.horizon, f.others)) + clockAhead
	present := f.hourOf(f.now())
	for _, old := range hours {
		if old < present-int64(keep/segment)-1 {
			_ = os.Remove(f.path(old)) // another process may have
		}
	}
}
