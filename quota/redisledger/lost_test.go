package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// mail is a connection that can delay a batch's command: the ledger gets the
// error of a lost answer, and deliver sends the command later.
type mail struct {
	mu   sync.Mutex
	hold int  // number of commands to hold
	run  bool // run them first, so that the answer is lost, not the command
	late [][]any
	sent int

	each  func() // called before each command
	after func() // called once, before the next command after a held one
}

func (m *mail) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mail) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *mail) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		m.mu.Lock()
		m.sent++
		held, run := m.hold > 0 && cmd.Name() == "evalsha", m.run
		after := m.after
		if held {
			after = nil
		}
		if held {
			m.hold--
			if !run {
				m.late = append(m.late, slices.Clone(cmd.Args()))
			}
		}
		if after != nil && m.hold == 0 && m.sent > 1 {
			m.after = nil
		} else {
			after = nil
		}
		m.mu.Unlock()
		if after != nil {
			after()
		}
		if m.each != nil {
			m.each()
		}
		if held && !run {
			return errors.New("i/o timeout")
		}
		err := next(ctx, cmd)
		if held {
			return errors.New("i/o timeout")
		}
		return err
	}
}

func (m *mail) next(run bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hold, m.run, m.sent = 1, run, 0
}

// TestFirstCopyComesLate: a batch is sent, seems lost, is sent again and
// decided; then the first copy arrives, perhaps several times. It must not be
// charged, whatever the answer to the second copy was.
func TestFirstCopyComesLate(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "late"})
	few := charge("few", 100, quota.Sliding(24*time.Hour))
	mustSpend(t, l, "m", 1, few)
	for i := range quota.Units(20) {
		way.next(false)
		mustSpend(t, l, "m", 2, few)
		for _, args := range way.late {
			do(t, client, args...)
		}
		if sum := used(t, l, few); sum != 1+2*(i+1) {
			t.Fatalf("%d units after %d calls of 2 and one of 1", sum, i+1)
		}
	}
	way.next(false) // its second copy is refused
	if _, err := spend(t, l, "m", 90, few); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	first := entries(t, l)[0]
	if err := l.Settle(t.Context(), quota.Receipt{Account: account, ID: first.ID, At: first.At}, 0); err != nil {
		t.Fatal(err)
	}
	do(t, client, way.late[len(way.late)-1]...)
	if sum := used(t, l, few); sum != 40 {
		t.Errorf("%d units; want 40", sum)
	}
}

// TestCopiesComeLate: the last copy of a batch is refused; when the call fits
// again, the earlier copies arrive. They must not be charged, since the caller
// was refused and spends again.
func TestCopiesComeLate(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	for _, name := range []uint64{0, 7} { // the ledger's and the caller's
		l := redisledger.New(given, &redisledger.Options{Prefix: fmt.Sprint("copies", name)})
		few := charge("few", 100, quota.Sliding(24*time.Hour))
		way.next(false) // from here on slots are read
		first := mustSpend(t, l, "m", 100, few)
		for round := range uint64(3) {
			batch := &quota.Batch{Account: account, Client: name, Seq: 10 + round, Requests: []quota.Request{{Method: "m", Units: 50, Charges: []*quota.Charge{few}}}}
			way.mu.Lock()
			way.hold, way.run, way.late = 1+int(round), false, nil
			way.mu.Unlock()
			if answers, err := l.Spend(t.Context(), batch); err != nil || !errors.Is(answers[0].Err, quota.ErrRefused) {
				t.Fatalf("%v, %v; want a refusal", answers, err)
			}
			if err := l.Settle(t.Context(), first, 0); err != nil {
				t.Fatal(err)
			}
			for _, args := range way.late {
				do(t, client, args...)
			}
			if sum := used(t, l, few); sum != 0 || len(way.late) != 1+int(round) {
				t.Errorf("%d units after %d late copies of a call that was refused; want 0", sum, len(way.late))
			}
			for range 2 {
				if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
					t.Fatalf("%v, %v; want a grant", answers, err)
				}
				if name == 0 {
					break
				}
			}
			if sum := used(t, l, few); sum != 50 {
				t.Errorf("%d units; want 50", sum)
			}
			log := entries(t, l)
			last := log[len(log)-1]
			if err := l.Settle(t.Context(), quota.Receipt{Account: account, ID: last.ID, At: last.At}, 100); err != nil {
				t.Fatal(err)
			}
			first = quota.Receipt{Account: account, ID: last.ID, At: last.At}
		}
	}
}

// TestLostInALongLog: a process without earlier grants searches only as far
// back as a copy can be in flight.
func TestLostInALongLog(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	for _, key := range []string{"", "203.0.113.9"} {
		old := redisledger.New(given, &redisledger.Options{Prefix: "long", Now: clock.Now})
		wide := charge("wide", 1e9, quota.Sliding(24*time.Hour))
		ask := func(n int) *quota.Batch {
			batch := &quota.Batch{Account: account, Key: key}
			for range n {
				batch.Requests = append(batch.Requests, quota.Request{Method: "m", Units: 1, Charges: []*quota.Charge{wide}})
			}
			return batch
		}
		for range 50 {
			if _, err := old.Spend(t.Context(), ask(500)); err != nil {
				t.Fatal(err)
			}
		}
		clock.Add(2 * time.Hour)
		for _, run := range []bool{false, true} {
			l := redisledger.New(given, &redisledger.Options{Prefix: "long", Now: clock.Now})
			if _, err := l.Standings(t.Context(), account, key, []*quota.Charge{wide}); err != nil {
				t.Fatal(err)
			}
			refused := ask(1)
			refused.Requests[0].Charges = []*quota.Charge{charge("none", 1, quota.Sliding(24*time.Hour))}
			if answers, err := l.Spend(t.Context(), refused); err != nil || answers[0].Err == nil { // learns
				t.Fatal(answers, err)
			}
			way.next(run)
			answers, err := l.Spend(t.Context(), ask(1))
			if err != nil || answers[0].Err != nil || way.sent > 10 {
				t.Fatalf("key %q, run %t: %v, %v after %d commands", key, run, answers, err, way.sent)
			}
		}
		standings, err := old.Standings(t.Context(), account, key, []*quota.Charge{wide})
		if err != nil || standings[0].Used != 50*500+2 {
			t.Errorf("%v, %v; want two more than %d", standings, err, 50*500)
		}
	}
}

// TestLostAmongMany loses the answers of batches that are granted, refused or
// partly granted, while another process writes more than one script searches.
func TestLostAmongMany(t *testing.T) {
	server := redistest.Start(t)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "many"})
	other, err := redisledger.Open(server.URL(), &redisledger.Options{Prefix: "many"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	wide := charge("wide", 1e9, quota.Sliding(24*time.Hour))
	crowd := func(n int) {
		batch := &quota.Batch{Account: account}
		for range n {
			batch.Requests = append(batch.Requests, quota.Request{Method: "n", Units: 1000, Charges: []*quota.Charge{wide}})
		}
		if _, err := other.Spend(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range []int{0, 10, 1700} {
		crowd(1 + n)
		for j, first := range []quota.Units{1, 7} {
			so := used(t, l, wide)
			narrow := charge("narrow", so+9, quota.Sliding(24*time.Hour))
			batch := &quota.Batch{Account: account, Requests: []quota.Request{
				{Method: "m", Units: first, Charges: []*quota.Charge{narrow}}, {Method: "m", Units: first, Charges: []*quota.Charge{narrow}},
				{Method: "m", Units: 2, Charges: []*quota.Charge{narrow}}}}
			if _, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 0, Force: true}}}); err != nil {
				t.Fatal(err)
			}
			way.mu.Lock()
			way.late = nil
			way.mu.Unlock()
			way.next(j == 0)
			done := make(chan []quota.Answer)
			go func() {
				answers, err := l.Spend(context.Background(), batch)
				if err != nil {
					t.Error(err)
				}
				done <- answers
			}()
			crowd(n + 1)
			granted := grantedAndLogged(t, l, batch, <-done)
			if sum := used(t, l, wide); sum != so+granted+1000*quota.Units(n+1) {
				t.Errorf("crowd %d, case %d %d: %d units; want %d and those granted, %d", n, i, j, sum, so, granted)
			}
		}
	}
}

// TestDecisionsStayLongAfterALostAnswer: ten minutes after the last lost answer
// or cooldown, decisions are as short as before.
func TestDecisionsStayLongAfterALostAnswer(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l := fresh(t, server.URL(), func() time.Time { return now })
	mustSpend(t, l, "m", 1, day)
	meta := do(t, client, "keys", "*:meta").([]any)[0]
	watched := func() bool { return do(t, client, "hget", meta, "head").(string)[11] == 1 }
	if watched() {
		t.Error("watched from the start")
	}
	if err := l.SetCooldown(t.Context(), quota.Cooldown{Account: account, Budget: "day", Until: now.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := spend(t, l, "m", 1, day); !errors.Is(err, quota.ErrRefused) || !watched() {
		t.Errorf("%v, watched %t; want a refusal", err, watched())
	}
	if err := l.ClearCooldown(t.Context(), account, "day"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(11 * time.Minute)
	mustSpend(t, l, "m", 1, day)
	mustSpend(t, l, "m", 1, day)
	if watched() {
		t.Error("still watched")
	}
	if sum := used(t, l, day); sum != 3 {
		t.Errorf("%d units; want 3", sum)
	}
}

// grantedAndLogged returns the units that were granted, and checks that the log
// holds them.
func grantedAndLogged(t *testing.T, l quota.Ledger, batch *quota.Batch, answers []quota.Answer) (granted quota.Units) {
	t.Helper()
	stamps := map[time.Time]quota.Units{}
	for k, a := range answers {
		if a.Err == nil {
			granted += batch.Requests[k].Units
			stamps[a.Receipt.At] = batch.Requests[k].Units
		}
	}
	for _, e := range entries(t, l) {
		if units, ok := stamps[e.At]; ok && units == e.Units {
			delete(stamps, e.At)
		}
	}
	if len(stamps) > 0 {
		t.Errorf("granted, and not in the log: %v", fmt.Sprint(stamps))
	}
	return granted
}
