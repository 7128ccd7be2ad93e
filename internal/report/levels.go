// LevelMarks report once, over all processes of a host, when a budget has
// used 60, 80 or 95 percent of its limit.

package report

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// percents are the levels, lowest first.
var percents = []quota.Units{60, 80, 95}

// LevelMarks remembers in a folder which levels were reported: each has a file,
// and the process that creates it reports the level. The file is removed when
// the budget falls below the level, or when a new day of a daily window begins.
// There is no lock, so a process that dies blocks no other. Marks is safe for
// concurrent use.
type LevelMarks struct{ Dir string }

// Crossed returns a line for each budget that has crossed a level since that
// was last reported; of several levels it is the highest. If Dir cannot be
// written, every call reports the levels that the budgets are at.
func (m LevelMarks) Crossed(balances []quota.Balance) []string {
	known := map[string][]string{} // files by budget
	marks, _ := os.ReadDir(m.Dir)  // missing: nothing was reported
	for _, f := range marks {
		budget, _, _ := strings.Cut(f.Name(), ".")
		known[budget] = append(known[budget], f.Name())
	}
	files.MkdirAll(m.Dir) // if it fails, so does mark
	var lines []string
	for i := range balances {
		b := &balances[i]
		budget, window := fileNames(b)
		var crossed quota.Units
		var holds []string
		for _, percent := range percents {
			if reached(b, percent) {
				crossed = percent
				holds = append(holds, fmt.Sprintf("%s.%s.%d", budget, window, percent))
			}
		}
		if crossed > 0 && m.mark(holds[len(holds)-1]) {
			lines = append(lines, levelLine(b, crossed))
			for _, name := range holds {
				m.mark(name)
			}
		}
		for _, name := range known[budget] {
			if !slices.Contains(holds, name) {
				os.Remove(filepath.Join(m.Dir, name)) // left, or of another day
			}
		}
	}
	return lines
}

// reached reports whether at least percent of a budget's limit is used. A
// shadow budget reaches nothing: its limit refuses no call. Nor does one of
// calls in flight, which is full for moments.
func reached(b *quota.Balance, percent quota.Units) bool {
	// Limits go up to 2^47, so nothing here overflows.
	isMomentary := b.Budget.Window.Kind() == engine.InFlight
	return !b.Budget.Shadow && !isMomentary && b.Used*100 >= b.Limit()*percent
}

// mark makes the file of a level, and reports whether it was not there.
func (m LevelMarks) mark(name string) bool {
	f, err := files.Create(filepath.Join(m.Dir, name))
	if err != nil {
		return !errors.Is(err, fs.ErrExist)
	}
	f.Close()
	return true
}

// fileNames returns how the names of files represent a budget and its window. A
// calendar window is another one each day; a sliding one is left by what is
// used alone.
func fileNames(b *quota.Balance) (budget, window string) {
	begins := ""
	if b.Budget.Window.Kind() == engine.Calendar {
		begins = b.Since.UTC().String()
	}
	return hash(b.Budget.Account, b.Budget.Name), hash(b.Budget.Window.String(), begins)
}

func hash(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func levelLine(b *quota.Balance, percent quota.Units) string {
	line := fmt.Sprintf("%s has used %d %% of %s (%s)", human.Name(b.Budget.Name), percent,
		b.Budget.Measure.Text(b.Limit()), b.Budget.Measure.Number(b.Used))
	if !b.NextFree.IsZero() {
		line += fmt.Sprintf("; more frees at %s (in %s)", human.Time(b.NextFree), human.Duration(b.NextFree.Sub(b.At)))
	}
	return line
}
