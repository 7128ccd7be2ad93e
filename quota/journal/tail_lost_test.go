package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestTailIsLostDuringADecision: a ledger loses what one process of a host was
// granted last, while another process decides a call, or before it was written
// to the journal. What the other is granted then was taken for proof that the
// ledger holds all before it.
func TestTailIsLostDuringADecision(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (openLedger func() quota.Ledger, keep, lose func()){"Redis": redisWithTail, "SQLite": fileWithTail} {
		for _, when := range []string{"before it is decided", "before the journal has it"} {
			t.Run(name+" "+when, func(t *testing.T) {
				if name == "SQLite" && runtime.GOOS == "windows" {
					t.Skip("a file that is open cannot be replaced")
				}
				openLedger, keep, lose := open(t)
				h := newOutage(t, 100, 0)
				var before, after, never func()
				first := h.processOn(during{openLedger(), &never, &after})
				second := h.processOn(during{openLedger(), &before, &never})
				for _, g := range []*quota.Guard{first, second} {
					if n, err := calls(g, 20); n != 20 {
						t.Fatal(n, err)
					}
				}
				sent := 40
				keep()
				if when == "before it is decided" {
					before = func() {
						n, _ := calls(first, 3)
						sent += n
						lose()
					}
				} else {
					after = func() {
						lose()
						n, _ := calls(second, 1)
						sent += n
					}
					n, _ := calls(first, 1)
					sent += n
				}
				for _, g := range []*quota.Guard{first, second} {
					n, err := calls(g, 200)
					if sent += n; !errors.Is(err, quota.ErrRefused) {
						t.Error(err)
					}
				}
				if sent != 100 {
					t.Errorf("%d calls were granted; want 100", sent)
				}
			})
		}
	}
}

// redisWithTail returns what opens a Redis ledger, keeps its present state, and
// makes it lose all since.
func redisWithTail(t *testing.T) (open func() quota.Ledger, keep, lose func()) {
	server := redistest.Start(t, aof...)
	return func() quota.Ledger {
			l, err := redisledger.Open(server.URL(), nil)
			must(t, err)
			return l
		}, func() { copyAOF(t, server) }, func() {
			rewriting(func(_, older []byte) []byte { return older })(t, server)
		}
}

// fileWithTail is redisWithTail for a file.
func fileWithTail(t *testing.T) (open func() quota.Ledger, keep, lose func()) {
	root := t.TempDir()
	folder, copied := filepath.Join(root, "ledger"), filepath.Join(root, "copied")
	return func() quota.Ledger {
			l, err := sqliteledger.Open(filepath.Join(folder, "ration.db"), nil)
			must(t, err)
			return l
		}, func() {
			must(t, os.CopyFS(copied, os.DirFS(folder)))
			for _, name := range []string{"ration.db", "ration.db.lock"} {
				must(t, os.Chmod(filepath.Join(copied, name), 0o600))
			}
		}, func() {
			must(t, os.RemoveAll(folder))
			must(t, os.Rename(copied, folder))
		}
}

// TestTailIsLostAndTheSearchFails: a server hangs while a process looks for
// what it was granted last, which the server has lost. The next call looks
// again.
func TestTailIsLostAndTheSearchFails(t *testing.T) {
	server := redistest.Start(t, aof...)
	mine, err := redisledger.Open(server.URL(), nil)
	must(t, err)
	first, err := spend(t.Context(), mine, "m", 1)
	must(t, err)
	knowing := quota.Batch{Account: account, Known: first, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{{Budget: "day",
		Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 100, Window: quota.Sliding(24 * time.Hour)}}}}}
	copyAOF(t, server)
	_, err = mine.Spend(t.Context(), &knowing)
	must(t, err)
	rewriting(func(_, older []byte) []byte { return older })(t, server)
	other, err := redisledger.Open(server.URL(), nil)
	must(t, err)
	for range 3 { // so that the newest timestamp does not tell
		_, err = spend(t.Context(), other, "m", 1)
		must(t, err)
	}
	server.Hang(t)
	_, err = mine.Spend(t.Context(), &knowing)
	server.GoOn(t)
	if !errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%v; want no answer of a server that hangs", err)
	}
	_, err = mine.Spend(t.Context(), &knowing)
	if _, ok := errors.AsType[*quota.ForgottenError](err); !ok {
		t.Errorf("%v; want a *quota.ForgottenError", err)
	}
}

// TestFirstCallsAcrossALoss: a host's first call is granted, and the ledger
// forgets it while another of its first calls is in flight, which cannot know
// of it. The next call restores it.
func TestFirstCallsAcrossALoss(t *testing.T) {
	for _, when := range []string{"before it is decided", "before the journal has it"} {
		for _, processes := range []string{"one process", "two processes"} {
			t.Run(when+" "+processes, func(t *testing.T) {
				h := newOutage(t, 100, 0)
				var before, after, never func()
				first := h.processOn(during{h.faulty, &before, &after})
				other := first
				if processes == "two processes" {
					other = h.processOn(during{h.faulty, &never, &never})
				}
				sent := 0
				across := func(first, then func()) func() { return func() { first(); then() } }
				lose := func() { h.faulty.Ledger = memledger.Open(nil) }
				call := func() {
					n, _ := calls(other, 1)
					sent += n
				}
				if when == "before it is decided" {
					before = across(call, lose)
				} else {
					after = across(lose, call)
				}
				n, _ := calls(first, 1)
				sent += n
				for _, g := range []*quota.Guard{first, other} {
					n, err := calls(g, 200)
					if sent += n; !errors.Is(err, quota.ErrRefused) {
						t.Error(err)
					}
				}
				if sent != 100 {
					t.Errorf("%d calls were granted; want 100", sent)
				}
			})
		}
	}
}

// TestFirstCallsAcrossAnHour: the second of them is in the next file of the
// journal.
func TestFirstCallsAcrossAnHour(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 22, 12, 59, 59, 0, time.UTC))
	h := newOutage(t, 100, 0)
	h.now = clock.Now
	lose := func() { h.faulty.Ledger = memledger.Open(&memledger.Options{Now: clock.Now}) }
	lose()
	var before, after func()
	g := h.processOn(during{h.faulty, &before, &after})
	sent := 0
	before = func() {
		sent, _ = calls(g, 1)
		lose()
		clock.Add(2 * time.Second)
	}
	for _, most := range []int{1, 200} {
		n, _ := calls(g, most)
		sent += n
	}
	if sent != 100 {
		t.Errorf("%d calls were granted; want 100", sent)
	}
}

// TestFirstCallAfterTwoLosses: a process's first call is in flight while
// another one of the host restores the log, which is then lost again.
func TestFirstCallAfterTwoLosses(t *testing.T) {
	h := newOutage(t, 100, 0)
	var before, after, never func()
	first := h.processOn(during{h.faulty, &before, &after})
	other := h.processOn(during{h.faulty, &never, &never})
	sent := 0
	before = func() {
		for range 2 {
			n, _ := calls(other, 10)
			sent += n
			h.faulty.Ledger = memledger.Open(nil)
		}
	}
	for _, most := range []int{1, 200} {
		n, _ := calls(first, most)
		sent += n
	}
	if sent != 100 {
		t.Errorf("%d calls were granted; want 100", sent)
	}
}
