//go:build linux || darwin

package sqliteledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// mixtures draw files of which most held too little of a budget without a sign
// of it, before lists were computed anew.
var mixtures = []uint64{
	0, 1, 2, 3, 4, 5, 54, 83, 119, 148, 217, 259, 306, 334, 394, 403, 430, 456, 544, 570, 589, 627, 855, 973, 1002,
	1018, 1039, 1104, 1126, 1193,
}

// TestMixedFiles: an older file is put under the -wal that a killed process has
// left, or copied over one of its size that is in use. Processes that know the
// newest entry must hear that entries are missing, unless every budget has all
// its units. RATION_SOAK=1 draws 1,200 files of each kind.
func TestMixedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("mixes dozens of files, 2 seconds")
	}
	seeds := mixtures
	if os.Getenv("RATION_SOAK") == "1" {
		seeds = nil
		for seed := range uint64(1200) {
			seeds = append(seeds, seed)
		}
	}
	for name, replace := range map[string]func(m *mixture, older []byte) []*sqliteledger.Ledger{
		"after a kill": (*mixture).replaceKilled,
		"in use":       (*mixture).overwrite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noticed, whole := 0, 0
			for _, seed := range seeds {
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					m := &mixture{TB: t, path: fresh(t), draws: rand.New(rand.NewPCG(seed, 0)), now: time.Now(), spent: map[string]quota.Units{}}
					for _, l := range m.play(replace) {
						err := m.spend(l)
						if errors.Is(err, quota.ErrLedgerLost) || isForgotten(err) {
							noticed++
							return
						}
						if err != nil {
							t.Fatal(err)
						}
						whole++
						for _, c := range mixed {
							if n := used(t, l, c); n < m.spent[c.Budget] {
								t.Errorf("%d units of budget %s; want at least %d", n, c.Budget, m.spent[c.Budget])
							}
						}
					}
				})
			}
			if noticed == 0 || whole == 0 {
				t.Errorf("entries were missing for %d handles, and not for %d; want some of both", noticed, whole)
			}
		})
	}
}

func isForgotten(err error) bool {
	_, ok := errors.AsType[*quota.ForgottenError](err)
	return ok
}

var mixed = []*quota.Charge{charge("day", 1_000_000, hour), charge("search", 1_000_000, hour, "search"), charge("list", 1_000_000, hour, "list")}

// mixture draws calls, and the times at which the file is copied.
type mixture struct {
	testing.TB
	path  string
	draws *rand.Rand
	now   time.Time
	calls uint64
	spent map[string]quota.Units // by budget
	known quota.Receipt          // the newest
}

func (m *mixture) open(path string) *sqliteledger.Ledger {
	return open(m, path, &sqliteledger.Options{Sync: sqliteledger.Normal, Now: func() time.Time { return m.now }})
}

// play spends, and replaces the file with a copy. It returns the handles of
// that, or none if it has no copy.
func (m *mixture) play(replace func(m *mixture, older []byte) []*sqliteledger.Ledger) []*sqliteledger.Ledger {
	l := m.open(m.path)
	var copies [][]byte
	for range 4 + m.draws.IntN(20) {
		for range 1 + m.draws.IntN(40) {
			m.now = m.now.Add(time.Duration(m.draws.IntN(1000)) * time.Millisecond)
			if err := m.spend(l); err != nil {
				m.Fatal(err)
			}
		}
		switch m.draws.IntN(4) {
		case 0:
			l.Close()
			l = m.open(m.path)
		case 1:
			if err := l.Merge(); err != nil {
				m.Fatal(err)
			}
		case 2:
			data, err := os.ReadFile(m.path)
			if err != nil {
				m.Fatal(err)
			}
			copies = append(copies, data)
		}
	}
	if len(copies) == 0 {
		return nil
	}
	if err := m.spend(l); err != nil {
		m.Fatal(err)
	}
	return replace(m, copies[m.draws.IntN(len(copies))])
}

// spend spends with the newest entry known.
func (m *mixture) spend(l *sqliteledger.Ledger) error {
	batch := one(1+quota.Units(m.draws.IntN(9)), mixed...)
	r := &batch.Requests[0]
	r.Method = []string{"search", "list", "other"}[m.draws.IntN(3)]
	m.calls++
	batch.Client, batch.Seq, batch.Known = 1+m.draws.Uint64N(3), m.calls, m.known
	answers, err := l.Spend(m.Context(), batch)
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	m.known = answers[0].Receipt
	m.spent["day"] += r.Units
	m.spent[r.Method] += r.Units
	return nil
}

// replaceKilled puts the older file under the -wal of a process that is killed
// now.
func (m *mixture) replaceKilled(older []byte) []*sqliteledger.Ledger {
	path := fresh(m)
	for _, end := range []string{"-wal", ".lock"} {
		copyFile(m, m.path+end, path+end, 0o600)
	}
	if err := os.WriteFile(path, older, 0o600); err != nil {
		m.Fatal(err)
	}
	m.later(path)
	return []*sqliteledger.Ledger{m.open(path)}
}

// overwrite copies the older file over one that others have open.
func (m *mixture) overwrite(older []byte) []*sqliteledger.Ledger {
	l, other := m.open(m.path), m.open(m.path)
	for _, l := range []*sqliteledger.Ledger{l, other, l} {
		if err := m.spend(l); err != nil {
			m.Fatal(err)
		}
	}
	file, err := os.OpenFile(m.path, os.O_RDWR, 0)
	if err != nil {
		m.Fatal(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() != int64(len(older)) {
		return nil // a smaller one is noticed as such
	}
	if _, err := file.WriteAt(older, 0); err != nil {
		m.Fatal(err)
	}
	m.later(m.path)
	return []*sqliteledger.Ledger{m.open(m.path), l, other}
}

// later sets when a file was written: the system's clock for that moves every
// few milliseconds only.
func (m *mixture) later(path string) {
	at := time.Now().Add(time.Second)
	if err := os.Chtimes(path, at, at); err != nil {
		m.Fatal(err)
	}
}

// TestFileIsCheckedOnce: only the first transaction after a foreign change
// reads the whole file. A merge of the -wal, by a commit or the last Close,
// does not count.
func TestFileIsCheckedOnce(t *testing.T) {
	path, day := fresh(t), charge("day", 10_000, hour)
	many := one(1, day)
	for i := range 4000 {
		many.Requests = append(many.Requests, many.Requests[0])
		many.Requests[i].Method = fmt.Sprint("method ", i)
	}
	for _, step := range []struct {
		name string
		do   func(l *sqliteledger.Ledger) // a handle that was not used yet
		want bool
	}{
		{"created", func(l *sqliteledger.Ledger) { spend(t, l, 1, day) }, true},
		{"merged by a commit", func(l *sqliteledger.Ledger) {
			if _, err := l.Spend(t.Context(), many); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"used by a process that is killed", func(l *sqliteledger.Ledger) {
			l.Close()
			cmd, out := start(t, "report", path)
			out.Scan()
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
			if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
				t.Fatalf("no -wal is left: %v", err)
			}
		}, true},
		{"merged by one that only reads", func(l *sqliteledger.Ledger) { used(t, l, day) }, true},
		{"written by another program", func(*sqliteledger.Ledger) {
			at := time.Now().Add(time.Hour)
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}, false},
		{"read", func(l *sqliteledger.Ledger) { used(t, l, day) }, false},
		{"checked", func(l *sqliteledger.Ledger) { spend(t, l, 1, day) }, true},
	} {
		l := open(t, path, nil)
		step.do(l)
		l.Close()
		l = open(t, path, nil)
		if is, err := l.IsAsLeft(); err != nil || is != step.want {
			t.Errorf("%s: the file is as it was left: %t, %v; want %t", step.name, is, err, step.want)
		}
		l.Close()
	}
}

// TestIdleLogIsSound: an idle log still has entries whose labels were swept.
// Asking it for a longer window, which sees them again, must not make it look
// damaged.
func TestIdleLogIsSound(t *testing.T) {
	path, now := fresh(t), time.Now()
	o := &sqliteledger.Options{Sync: sqliteledger.Normal, Now: func() time.Time { return now }}
	l := open(t, path, o)
	spend(t, l, 1, charge("hour", 10, hour))
	now = now.Add(72 * time.Hour)
	busy := one(1, charge("hour", 10_000, hour))
	busy.Account = "busy"
	for i := range 600 {
		busy.Requests = append(busy.Requests, busy.Requests[0])
		busy.Requests[i].Method = fmt.Sprint("method ", i)
	}
	if _, err := l.Spend(t.Context(), busy); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Number("SELECT COUNT(*) FROM labels WHERE method = 'videos.list'"); n != 0 || err != nil {
		t.Fatalf("%d labels, %v; want that of the idle log deleted", n, err)
	}
	month := charge("month", 10, quota.Sliding(30*24*time.Hour))
	spend(t, l, 1, month)
	l.Close()
	at := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, o)
	spend(t, l, 1, month)
	if n := used(t, l, month); n != 3 {
		t.Errorf("%d used; want 3", n)
	}
}
