package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// percents are the parts of a limit whose crossing is told.
var percents = []quota.Units{60, 80, 95}

// levels tells once when a budget crosses a level, over all processes of the
// host: a level that was told has a file in dir, which whoever makes it first
// tells. When a budget falls below the level, or a new day of a calendar window
// begins, the file goes. Nothing is locked, so a process that dies leaves nothing
// behind that others wait for. It is safe for concurrent use.
type levels struct{ dir string }

// told returns what is to be said of the balances: of each budget the highest
// level that it has crossed since it was last told. Where nothing can be
// remembered it says what holds, rather twice than never.
func (l levels) told(balances []quota.Balance) []string {
	known := map[string][]string{} // files by budget
	files, _ := os.ReadDir(l.dir)  // missing: nothing was told
	for _, f := range files {
		budget, _, _ := strings.Cut(f.Name(), ".")
		known[budget] = append(known[budget], f.Name())
	}
	privatefile.MkdirAll(l.dir) // if it fails, so does mark
	var told []string
	for i := range balances {
		b := &balances[i]
		budget, window := marks(b)
		var crossed quota.Units
		var holds []string
		for _, percent := range percents {
			if reached(b, percent) {
				crossed = percent
				holds = append(holds, fmt.Sprintf("%s.%s.%d", budget, window, percent))
			}
		}
		if crossed > 0 && l.mark(holds[len(holds)-1]) {
			told = append(told, levelLine(b, crossed))
			for _, name := range holds {
				l.mark(name)
			}
		}
		for _, name := range known[budget] {
			if !slices.Contains(holds, name) {
				os.Remove(filepath.Join(l.dir, name)) // left, or of another day
			}
		}
	}
	return told
}

// reached reports whether a budget has used so many percent of its limit.
func reached(b *quota.Balance, percent quota.Units) bool {
	// Limits go up to 2^47, so nothing here overflows.
	return b.Used*100 >= b.Budget.Limit*percent
}

// mark makes the file of a level, and reports whether it was not there.
func (l levels) mark(name string) bool {
	f, err := privatefile.Create(filepath.Join(l.dir, name))
	if err != nil {
		return !errors.Is(err, fs.ErrExist)
	}
	f.Close()
	return true
}

// marks returns the names of a budget and of its window in files. A calendar
// window is another one each day; a sliding one is left by what is used alone.
func marks(b *quota.Balance) (budget, window string) {
	begins := ""
	if b.Budget.Window.Kind() == quota.KindDaily {
		begins = b.Since.UTC().String()
	}
	return hash(b.Budget.Account, b.Budget.Name), hash(b.Budget.Window.String(), begins)
}

func hash(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func levelLine(b *quota.Balance, percent quota.Units) string {
	line := fmt.Sprintf("%s has used %d %% of %s (%d)", human.Name(b.Budget.Name), percent, human.Amount(b.Budget.Limit, b.Budget.Measure.String()), b.Used)
	if !b.NextFree.IsZero() {
		line += fmt.Sprintf("; more frees at %s (in %s)", human.Time(b.NextFree), human.Duration(b.NextFree.Sub(b.At)))
	}
	return line
}

// tellLevels tells on stderr what budgets have crossed since it was last told
// on this host. What it cannot find out it leaves.
func (a *app) tellLevels(ctx context.Context, s *spending) {
	dir, err := a.state()
	if err != nil {
		return
	}
	balances, err := s.guard.Balances(context.WithoutCancel(ctx))
	if err != nil {
		return
	}
	for _, line := range (levels{filepath.Join(dir, "levels")}).told(balances) {
		fmt.Fprintln(a.stderr, "ration:", line)
	}
}
