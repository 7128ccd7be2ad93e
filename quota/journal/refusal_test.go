package journal_test

import (
	"errors"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/redistest"
)

// TestRefusedHostForgetsThatNothingIsLeft: a host that others have left nothing, and
// that was refused, is granted nothing while Redis is down, and nothing when it
// returns alone to a Redis that has forgotten everything.
func TestRefusedHostForgetsThatNothingIsLeft(t *testing.T) {
	server, u := redistest.Start(t), startUpstream(t)
	ours, theirs, fresh := redisHost(t, server), redisHost(t, server), redisHost(t, server)
	g := ours.process()
	u.spend(t, g, 10)
	u.spend(t, theirs.process(), 490)
	for _, g := range []*quota.Guard{g, fresh.process()} { // fresh was never granted anything
		if err := u.send(t, g, 1); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", err)
		}
	}
	server.Stop()
	for _, g := range []*quota.Guard{g, ours.process(), fresh.process()} {
		_ = u.send(t, g, 100)
	}
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream with Redis down; want 500", hits)
	}
	server.Restart(t)
	u.exhaust(t, ours.process())
	u.exhaust(t, theirs.process())
	if hits := u.hits.Load(); hits != 500 {
		t.Errorf("%d calls reached the upstream once Redis had forgotten; want 500", hits)
	}
}
