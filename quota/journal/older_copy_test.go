package journal_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// shared is a SQLite file that hosts share, each with a journal of its own, on
// a clock of the test. It may be down, and may go back to an older copy.
type shared struct {
	*testing.T
	ledgertest.Clock
	root    string
	copies  int
	budgets []quota.Budget
	down    bool
	isDeaf  bool
	isMute  bool
	late    time.Duration // how far the hosts' clocks are behind
	sent    quota.Units   // of all calls
}

func share(t *testing.T) *shared {
	day := quota.Budget{Account: account, Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour)}
	s := &shared{T: t, root: t.TempDir(), budgets: []quota.Budget{day}}
	s.Set(noon)
	must(t, os.Mkdir(s.folder(), 0o700))
	return s
}

func (s *shared) folder() string { return filepath.Join(s.root, "ledger") }

// process runs a process of a host.
func (s *shared) process(host string, run func(*quota.Guard, *journal.Ledger)) {
	s.Helper()
	inner, err := sqliteledger.Open(filepath.Join(s.folder(), "ration.db"), &sqliteledger.Options{Now: s.Now})
	must(s.T, err)
	f := &faulty{Ledger: inner}
	f.fail(nil)
	if s.down {
		f.fail(errDown)
	}
	var ledger quota.Ledger = f
	if s.isDeaf {
		ledger = deaf{f}
	}
	if s.isMute {
		ledger = mute{f}
	}
	l := journal.New(ledger, filepath.Join(s.root, host), &journal.Options{Budgets: s.budgets, Now: func() time.Time { return s.Now().Add(-s.late) },
		Allow: func(quota.Call) quota.Units { return 50 }})
	defer l.Close()
	guard, err := quota.NewGuard(l, s.budgets, nil)
	must(s.T, err)
	run(guard, l)
}

// spend makes calls of one unit that must all be granted.
func (s *shared) spend(host string, calls int) {
	s.Helper()
	if sent, err := s.send(host, calls); sent < calls {
		s.Fatalf("%s: %d of %d calls, %v", host, sent, calls, err)
	}
}

// exhaust makes calls until one is refused.
func (s *shared) exhaust(host string) {
	s.Helper()
	if _, err := s.send(host, 1000); !errors.Is(err, quota.ErrRefused) {
		s.Fatalf("%s: %v; want a refusal", host, err)
	}
}

func (s *shared) send(host string, most int) (sent int, err error) {
	s.process(host, func(guard *quota.Guard, _ *journal.Ledger) {
		for ; sent < most && err == nil; sent++ {
			s.Add(time.Millisecond)
			if _, err = guard.Spend(s.Context(), quota.Call{Account: account, Method: "m", Units: 1}); err != nil {
				return
			}
			s.sent++
		}
	})
	return sent, err
}

// keep copies the folder, and returns what puts the copy in its place.
func (s *shared) keep() (putBack func()) {
	s.Helper()
	s.copies++
	older := filepath.Join(s.root, fmt.Sprint("copy", s.copies))
	must(s.T, os.CopyFS(older, os.DirFS(s.folder())))
	return func() {
		s.Helper()
		s.lose()
		must(s.T, os.CopyFS(s.folder(), os.DirFS(older)))
		for _, file := range []string{"ration.db", "ration.db.lock"} {
			must(s.T, os.Chmod(filepath.Join(s.folder(), file), 0o600))
		}
	}
}

func (s *shared) lose() { must(s.T, os.RemoveAll(s.folder())) }

// mustBe checks what was sent once all hosts were refused.
func (s *shared) mustBe(want quota.Units) {
	s.Helper()
	if s.sent != want {
		s.Errorf("%d units were sent; want %d", s.sent, want)
	}
}

// mustBeInUse checks what the ledger holds.
func (s *shared) mustBeInUse(want quota.Units) {
	s.Helper()
	s.process("looker", func(guard *quota.Guard, _ *journal.Ledger) {
		balances, err := guard.Balances(s.Context())
		must(s.T, err)
		if used := balances[0].Used; used != want {
			s.Errorf("%d units in use; want %d", used, want)
		}
	})
}

// deaf is a ledger whose answers to restorations are lost.
type deaf struct{ quota.Ledger }

func (d deaf) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	_, err := d.Ledger.Restore(ctx, r)
	return quota.RestoreResult{}, errors.Join(quota.ErrInDoubt, err)
}

// halfDown is a ledger that takes calls alone.
type halfDown struct{ quota.Ledger }

func (halfDown) Settle(context.Context, quota.Receipt, quota.Units) error { return errDown }
func (halfDown) SetCooldown(context.Context, quota.Cooldown) error        { return errDown }

// TestRefusalHidesARestoration: a refusal finds the newest entry, which can be
// in a copy that lacks what this host has restored since, also when the record
// of that is in the journal's file of an earlier hour: 550 of 500.
func TestRefusalHidesARestoration(t *testing.T) {
	for _, passes := range []time.Duration{0, time.Hour} {
		s := share(t)
		s.spend("theirs", 10)
		s.down = true
		s.spend("theirs", 50)
		s.down = false
		s.spend("ours", 440)
		older := s.keep()
		s.exhaust("theirs") // restores its 50
		s.Add(passes)
		s.exhaust("theirs")
		older()
		s.exhaust("theirs")
		s.exhaust("ours")
		s.mustBe(500)
	}
}

// TestRepeatedRestorationHidesTheFirst: the answer to a restoration was lost,
// and the repeated one made the newest earlier call the one that the host looks
// for, which is in a copy from before both: 550 of 500.
func TestRepeatedRestorationHidesTheFirst(t *testing.T) {
	s := share(t)
	s.spend("theirs", 10)
	s.spend("ours", 440)
	older := s.keep()
	s.down = true
	s.spend("theirs", 50)
	s.down, s.isDeaf = false, true
	if _, err := s.send("theirs", 1); !errors.Is(err, quota.ErrInDoubt) {
		t.Fatalf("%v; want a lost answer", err)
	}
	s.isDeaf = false
	s.exhaust("theirs")
	older()
	s.exhaust("theirs")
	s.exhaust("ours")
	s.mustBe(500)
}

// TestRaiseHidesTheNewestGrant: a restoration that only raised an old call made
// that the newest entry that the host looked for: 989 of 500.
func TestRaiseHidesTheNewestGrant(t *testing.T) {
	s := share(t)
	s.spend("ours", 10)
	s.process("ours", func(guard *quota.Guard, l *journal.Ledger) {
		grant, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
		must(t, err)
		older := s.keep()
		s.spend("ours", 487)
		l.Ledger = halfDown{l.Ledger}
		if err := grant.Settle(t.Context(), 3); !errors.Is(err, quota.ErrLedgerDown) {
			t.Errorf("%v; want that the ledger is down", err)
		}
		s.sent += 3
		s.exhaust("ours") // restores the two units
		older()
	})
	s.exhaust("ours")
	s.mustBe(500)
}

// TestRestorationHidesARefusal: a restoration that added nothing, of a cooldown
// or for a process with other budgets, took the place of the entry that a
// refusal had found: 989 of 500.
func TestRestorationHidesARefusal(t *testing.T) {
	minute := quota.Budget{Account: account, Name: "minute", Limit: 400, Window: quota.Sliding(time.Minute)}
	for name, restore := range map[string]func(*shared){
		"of a cooldown": func(s *shared) {
			s.process("ours", func(guard *quota.Guard, l *journal.Ledger) {
				l.Ledger = halfDown{l.Ledger}
				err := guard.Cool(t.Context(), quota.Cooldown{Account: account, Budget: "other", Until: s.Now().Add(time.Minute), Reason: "r"})
				if !errors.Is(err, quota.ErrLedgerDown) {
					t.Errorf("%v; want that the ledger is down", err)
				}
			})
			s.exhaust("ours")
		},
		"for other budgets": func(s *shared) {
			s.budgets = append(s.budgets, minute)
			s.exhaust("ours")
			s.budgets = s.budgets[:1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := share(t)
			s.spend("ours", 10)
			s.lose()
			s.spend("ours", 1) // restores the others, and states its budget
			older := s.keep()
			s.spend("theirs", 489)
			s.exhaust("ours")
			restore(s)
			older()
			s.exhaust("ours")
			s.mustBe(500)
		})
	}
}

// TestRepeatedCallBeforeACopy: what a host heard with the answer to a repeated
// call is admitted again, since an older copy has that call: 989 of 500.
func TestRepeatedCallBeforeACopy(t *testing.T) {
	s, id := share(t), quota.ID{Client: quota.NewClient(), Seq: 1}
	call := func() {
		s.process("ours", func(guard *quota.Guard, _ *journal.Ledger) {
			s.Add(time.Millisecond)
			_, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1, ID: id})
			must(t, err)
		})
	}
	s.spend("theirs", 10)
	call()
	s.sent++
	older := s.keep()
	s.spend("theirs", 489)
	call()
	older()
	s.exhaust("ours")
	s.mustBe(500)
}

// TestSettledAfterTheFirstOutage: a host that had no answer of the ledger yet
// restores its calls with other timestamps than their receipts have, by which
// the ledger found none of them: what such a call turned out to cost was lost,
// and its refund too.
func TestSettledAfterTheFirstOutage(t *testing.T) {
	s := share(t)
	s.down, s.late = true, 3*time.Millisecond // as behind a network
	s.process("ours", func(guard *quota.Guard, _ *journal.Ledger) {
		grants := make([]*quota.Grant, 2)
		for i := range grants {
			s.Add(time.Millisecond)
			grant, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 20})
			must(t, err)
			grants[i] = grant
		}
		s.down = false
		s.spend("ours", 1)
		must(t, errors.Join(grants[0].Settle(t.Context(), 100), grants[1].Refund(t.Context())))
	})
	s.process("ours", func(guard *quota.Guard, _ *journal.Ledger) {
		balances, err := guard.Balances(t.Context())
		must(t, err)
		if used := balances[0].Used; used != 100+1 {
			t.Errorf("%d units in use; want 101", used)
		}
	})
}

// TestCooldownOutlivesTheJournal: a cooldown that lasts for longer than the
// journal's files are kept was forgotten, although the host was refused by it
// every hour.
func TestCooldownOutlivesTheJournal(t *testing.T) {
	s := share(t)
	s.spend("ours", 1)
	s.process("ours", func(guard *quota.Guard, _ *journal.Ledger) {
		must(t, guard.Cool(t.Context(), quota.Cooldown{Account: account, Until: s.Now().Add(10 * 24 * time.Hour), Reason: "until the month ends"}))
		for range 4 * 24 {
			s.Add(time.Hour)
			if _, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1}); !errors.Is(err, quota.ErrRefused) {
				t.Fatal(err)
			}
		}
	})
	s.lose()
	s.exhaust("ours")
	s.down = true
	s.exhaust("ours")
	s.mustBe(1)
}

// TestClockIsSetBackOverAnHour: the newest entry of a host is in the journal's
// file of an earlier hour than those before it: 990 of 500.
func TestClockIsSetBackOverAnHour(t *testing.T) {
	for _, ahead := range []time.Duration{10 * time.Minute, 5 * time.Hour} {
		s := share(t)
		s.Add(55 * time.Minute)
		s.late = -ahead
		s.spend("ours", 10)
		s.late = 0
		older := s.keep()
		s.spend("ours", 490)
		s.Add(time.Hour)
		older()
		s.exhaust("ours")
		s.mustBe(500)
	}
}

// TestRightLedgerIsTakenForACopy: a server is started in a wrong folder, and a
// new host makes its first call there. When the right log is back, that host
// has never heard of it. What it hears then held its own call in the log of the
// wrong folder, and was noted beside that call, once the other host returned.
func TestRightLedgerIsTakenForACopy(t *testing.T) {
	s := share(t)
	s.spend("b", 5)
	putBack := s.keep()
	s.lose()
	s.spend("b", 1)
	s.spend("a", 1)
	putBack()
	s.spend("a", 1)
	s.spend("b", 1)
	s.spend("a", 1)
	s.mustBeInUse(s.sent)
}

// TestOlderCopyIsReplacedByTheRightLog: a host notices an older copy and
// restores it. Then the right log, which lacked nothing, is back in its place,
// and another host makes the first call there. What it heard was taken for what
// the copy held, so that all that the copy had lacked was noted beside itself.
func TestOlderCopyIsReplacedByTheRightLog(t *testing.T) {
	for _, isUsed := range []bool{false, true} { // by another host, before it is noticed
		s := share(t)
		s.spend("b", 1)
		older := s.keep()
		s.spend("b", 200)
		right := s.keep()
		older()
		if isUsed {
			s.spend("c", 1)
		}
		s.spend("b", 1)
		s.spend("c", 1)
		s.Add(time.Hour)
		right()
		for _, host := range []string{"a", "b", "c", "a", "b"} {
			s.spend(host, 1)
		}
		s.mustBeInUse(s.sent)
	}
}
