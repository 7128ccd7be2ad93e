package journal_test

import (
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota/journal"
)

// TestRefusalIsNotInTheCopy: an older copy takes the ledger's place that has
// the newest grant of a host, or is of a time before the host was granted
// anything. What others had spent until it was refused was admitted again: 980
// of 500.
func TestRefusalIsNotInTheCopy(t *testing.T) {
	for _, name := range []string{"kill -9 with RDB only", "older copy of the AOF"} {
		for host, own := range map[string]int{"host with grants": 10, "host that was only refused": 0} {
			t.Run(name+"/"+host, func(t *testing.T) {
				fault, u := forgetfuls[name], startUpstream(t)
				server := redistest.Start(t, fault.args...)
				ours, theirs := redisHost(t, server), redisHost(t, server)
				u.spend(t, theirs.process(), 10)
				u.spend(t, ours.process(), own)
				fault.before(t, server)
				u.spend(t, theirs.process(), 490-own)
				u.exhaust(t, ours.process())
				fault.forget(t, server)
				u.exhaust(t, ours.process())
				u.exhaust(t, theirs.process())
				if hits := u.hits.Load(); hits != 500 {
					t.Errorf("%d calls reached the upstream; want 500", hits)
				}
			})
		}
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
