package journal_test

import (
	"errors"
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestRefusalIsNotInTheCopy: an older copy takes the ledger's place that has
// the newest grant of a host, or is of a time before the host was granted
// anything. What others had spent until it was refused was admitted again: 980
// of 500.
func TestRefusalIsNotInTheCopy(t *testing.T) {
	for name, own := range map[string]int{"of a host with grants": 10, "of one that was only refused": 0} {
		t.Run(name, func(t *testing.T) {
			u, ledger := startUpstream(t), memledger.Open(nil)
			ours := newHost(t, func() quota.Ledger { return ledger })
			theirs := newHost(t, func() quota.Ledger { return ledger })
			u.spend(t, theirs.process(), 10)
			u.spend(t, ours.process(), own)
			older := ledger.Copy()
			u.spend(t, theirs.process(), 490-own)
			if err := u.send(t, ours.process(), 1); !errors.Is(err, quota.ErrRefused) {
				t.Fatalf("%v; want a refusal", err)
			}
			ledger = older
			u.exhaust(t, ours.process())
			u.exhaust(t, theirs.process())
			if hits := u.hits.Load(); hits != 500 {
				t.Errorf("%d calls reached the upstream; want 500", hits)
			}
		})
	}
}

// TestRefusalFindsANote: the newest entry is the note of another host's
// restoration, which goes when its calls are restored. A host that took it for
// an entry would find the ledger forgetful then.
func TestRefusalFindsANote(t *testing.T) {
	server, u := redistest.Start(t), startUpstream(t)
	first, second, refused := redisHost(t, server), redisHost(t, server), redisHost(t, server)
	u.spend(t, first.process(), 100)
	u.spend(t, second.process(), 1)
	u.spend(t, first.process(), 399)
	u.exhaust(t, second.process())
	server.Do(t, "FLUSHALL")
	u.exhaust(t, second.process()) // restores its call, and notes 499
	u.exhaust(t, refused.process())
	u.exhaust(t, first.process())
	l := journal.New(refused.open(), refused.dir, &journal.Options{Budgets: budgets})
	defer l.Close()
	if granted, err := l.Missing(t.Context(), account); !granted.IsZero() || err != nil {
		t.Errorf("%s, %v; want nothing missing", granted, err)
	}
}
