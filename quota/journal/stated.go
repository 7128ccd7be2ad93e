package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/privatefile"
)

// The processes of a host may have different budgets, if they use different
// costs.yaml. A hearing is kept under the name of its budget and a checksum of
// what distinguishes it from another budget with that name. A restoration
// states only the hearings of the budgets of its own process. The file
// HASH.stated lists these, so that a process with others restores the log once
// more before it is granted anything.

// statement is the content of that file.
type statement struct {
	Epoch   uint64   `json:"epoch"` // of the restored log
	Budgets []string `json:"budgets"`
}

// maxStatement is the most bytes that are read of it.
const maxStatement = 1 << 20

func (f *files) statedPath() string { return filepath.Join(f.dir, f.hash+".stated") }

// heardName is the name under which hearings of a budget are kept.
func heardName(charge *quota.Charge) string {
	return fmt.Sprintf("%s\x00%08x", charge.Budget, crc32.ChecksumIEEE([]byte(charge.Identity())))
}

// budgetOf returns the name of the budget that is heard of under a name.
func budgetOf(heardName string) string {
	budget, _, _ := strings.Cut(heardName, "\x00")
	return budget
}

// hearings returns what was heard of a budget, in each life of the log. If
// nothing was, it returns what was heard of others with its name, since the
// budget may have been edited. Earlier versions kept all under the
// budget's name.
func (s *state) hearings(name string) map[subject]hearing {
	exact, alike := map[subject]hearing{}, map[subject]hearing{}
	for of, h := range s.heard {
		if of.budget == name || of.budget == budgetOf(name) {
			exact[of] = h
		}
		if budgetOf(of.budget) == budgetOf(name) {
			alike[of] = h
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return alike
}

// lastHeard returns what was heard of a budget last, and in which life.
func (s *state) lastHeard(name string) (last hearing, epoch uint64) {
	for of, h := range s.hearings(name) {
		if h.at >= last.at {
			last, epoch = h, of.epoch
		}
	}
	return last, epoch
}

// hasNamesakes reports whether other budgets with the name of one were
// heard of.
func (s *state) hasNamesakes(name string) bool {
	for of := range s.heard {
		if of.budget != name && of.budget != budgetOf(name) && budgetOf(of.budget) == budgetOf(name) {
			return true
		}
	}
	return false
}

// HeardOfEntries reports whether the log of this host's newest grant has kept
// entries: a window that is not an estimate held units that it still sees.
func (l *Ledger) HeardOfEntries(account string) (heard bool, err error) {
	a := l.account(account)
	known, err := l.newestGrant(a)
	if err != nil {
		return false, err
	}
	err = a.withState(func(s *state) error {
		now := l.now().UnixMicro() - s.skew
		for budget, charge := range l.budgets[account] {
			if charge.Window.Estimate() {
				continue
			}
			since := decide.Since(&charge.Window, now)
			for of, h := range s.hearings(l.names[account][budget]) {
				isSeen := h.used > 0 && h.at >= since
				heard = heard || isSeen && of.epoch == known.Epoch
			}
		}
		return nil
	})
	return heard, err
}

func (l *Ledger) addBudget(b *quota.Budget, coverage *quota.Coverage) {
	if l.budgets[b.Account] == nil {
		l.budgets[b.Account], l.names[b.Account] = map[string]*quota.Charge{}, map[string]string{}
	}
	charge := &quota.Charge{Budget: b.Name, Coverage: coverage, Limit: b.Limit, Window: b.Window}
	l.budgets[b.Account][b.Name], l.names[b.Account][b.Name] = charge, heardName(charge)
	l.horizons[b.Account] = max(l.horizons[b.Account], b.Window.Horizon())
}

// heardName returns the name under which this process keeps what it hears of a
// budget.
func (l *Ledger) heardName(account, budget string) string {
	if name, ok := l.names[account][budget]; ok {
		return name
	}
	return budget
}

// readStated returns what the last restoration by this host stated; nothing if
// there was none, or it cannot be read.
func (f *files) readStated() (s statement) {
	text, err := privatefile.ReadFile(f.statedPath(), maxStatement)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return statement{}
	}
	return s
}

// isStated reports whether all that this host has heard of the budgets of this
// process is in the log of its newest record, as far as a restoration had to
// put it there, and all that it was granted in earlier lives. It looks once in
// each life of the log, and again if grants of another one were read.
func (l *Ledger) isStated(a *account, newest *newestRecord) bool {
	epoch := newest.epoch
	if epoch == 0 || !newest.spansLives && a.stated.Load() == epoch {
		return true
	}
	stated := a.files.readStated()
	if stated.Epoch != epoch && newest.spansLives { // this host has not restored it
		return false
	}
	if stated.Epoch == epoch { // else this host need not restore it
		for _, name := range l.names[a.name] {
			if !slices.Contains(stated.Budgets, name) {
				return false
			}
		}
	}
	a.stated.Store(epoch)
	a.mu.Lock()
	a.newest.spansLives = a.newest.spansLives && a.newest.epoch != epoch
	a.mu.Unlock()
	return true
}

// setStated notes that the budgets of this process are stated in the log of an
// epoch. The caller holds the lock.
func (l *Ledger) setStated(a *account, epoch uint64) error {
	stated := a.files.readStated()
	if stated.Epoch != epoch {
		stated = statement{Epoch: epoch}
	}
	for _, name := range l.names[a.name] {
		if !slices.Contains(stated.Budgets, name) {
			stated.Budgets = append(stated.Budgets, name)
		}
	}
	slices.Sort(stated.Budgets)
	text, err := json.Marshal(stated)
	if err != nil {
		return err
	}
	err = privatefile.Replace(a.files.statedPath(), text, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no folder, and no journal
	}
	return err
}
