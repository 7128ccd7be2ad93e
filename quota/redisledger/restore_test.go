package redisledger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestLogThatKeepsChangingIsBusy: during each try to restore a log, the list of
// what is settled meanwhile is deleted, as when another host has restored it.
// The server is up, so this must not open an allowance. Later the log is
// restored.
func TestLogThatKeepsChangingIsBusy(t *testing.T) {
	if testing.Short() {
		t.Skip("tries to restore for two seconds")
	}
	t.Parallel()
	server := redistest.Start(t)
	client, deletes := raw(t, server), raw(t, server)
	l := redisledger.NewPatient(client)
	call, err := spend(t, l, "m", 5, day)
	if err != nil {
		t.Fatal(err)
	}
	list, restoring := redisledger.LogKey(l, account)+":s", true
	client.AddHook(after{"rpush", func() {
		if restoring && deletes.Del(t.Context(), list).Val() != 1 {
			t.Errorf("no list %s", list)
		}
	}})
	lost := quota.Entry{At: call.At.Add(-time.Minute), ID: quota.ID{Client: 5, Seq: 1}, Method: "m", Units: 100, Calls: 1}
	restoration := &quota.Restoration{Account: account, Lost: true, Entries: []quota.Entry{lost}}
	if _, err = l.Restore(t.Context(), restoration); !errors.Is(err, quota.ErrLedgerBusy) || errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerBusy", err)
	}
	if got := used(t, l, day); got != 5 {
		t.Errorf("%d units; want 5", got)
	}
	if left := client.Keys(t.Context(), "*:r*").Val(); len(left) > 0 {
		t.Errorf("%d logs that were not swapped in stay, such as %s", len(left), left[0])
	}
	restoring = false
	_, err = l.Restore(t.Context(), restoration)
	if got := used(t, l, day); err != nil || got != 105 {
		t.Errorf("%d units, %v; want both calls", got, err)
	}
}

// TestKilledRestorationLeavesItsLog: a process that is killed while it restores
// leaves the log that it wrote beside the present one. That expires; the log it
// becomes otherwise keeps its own time.
func TestKilledRestorationLeavesItsLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := raw(t, server)
	l := redisledger.New(client, nil)
	call, err := spend(t, l, "m", 5, day)
	if err != nil {
		t.Fatal(err)
	}
	log := client.Keys(t.Context(), "*:l*").Val()
	if len(log) != 1 {
		t.Fatalf("logs %v; want one", log)
	}
	whole := client.PTTL(t.Context(), log[0]).Val()
	ctx, kill := context.WithCancel(t.Context())
	client.AddHook(after{"pexpire", kill})
	lost := quota.Entry{At: call.At.Add(-time.Minute), ID: quota.ID{Client: 5, Seq: 1}, Method: "m", Units: 100, Calls: 1}
	restoration := &quota.Restoration{Account: account, Lost: true, Entries: []quota.Entry{lost}}
	if _, err := l.Restore(ctx, restoration); err == nil {
		t.Fatal("it was restored; want it to be killed")
	}
	left := client.Keys(t.Context(), "*:r*").Val()
	if len(left) != 1 {
		t.Fatalf("%d logs are left; want one", len(left))
	}
	if ttl := client.PTTL(t.Context(), left[0]).Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("%s expires in %s; want within an hour", left[0], ttl)
	}
	if _, err := l.Restore(t.Context(), restoration); err != nil {
		t.Fatal(err)
	}
	if ttl := client.PTTL(t.Context(), log[0]).Val(); ttl < whole-time.Minute {
		t.Errorf("the restored log expires in %s; want %s", ttl, whole)
	}
}

// unanswered loses the first answer to a script that swaps a log in.
type unanswered struct {
	after
	lost *bool
}

func (u unanswered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		swaps := slices.ContainsFunc(cmd.Args(), func(arg any) bool { key, _ := arg.(string); return strings.Contains(key, ":r") })
		if err == nil && swaps && strings.HasPrefix(cmd.Name(), "eval") && !*u.lost {
			*u.lost = true
			return errors.New("i/o timeout")
		}
		return err
	}
}

// TestUnansweredRestorationFindsNothing: the answer to the script that restores
// a log is lost. The next try finds all of it there, and said that the log had
// lacked nothing, so no process reported the loss.
func TestUnansweredRestorationFindsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, lost := raw(t, server), false
	l := redisledger.New(client, nil)
	call, err := spend(t, l, "m", 5, day)
	if err != nil {
		t.Fatal(err)
	}
	client.AddHook(unanswered{lost: &lost})
	entry := quota.Entry{At: call.At.Add(-time.Minute), ID: quota.ID{Client: 5, Seq: 1}, Method: "m", Units: 100, Calls: 1}
	done, err := l.Restore(t.Context(), &quota.Restoration{Account: account, Lost: true, Entries: []quota.Entry{entry}})
	if err != nil || done.Entries != 1 || done.Units != 100 || !lost {
		t.Errorf("%+v, %v; want that one call of 100 units was missing", done, err)
	}
	if got := used(t, l, day); got != 105 {
		t.Errorf("%d units; want 105", got)
	}
}

// markedLog returns a ledger whose log kept no entries before five calls were
// restored to it. A record that only marks the newest timestamp follows them.
func markedLog(t *testing.T, server *redistest.Server, clock *ledgertest.Clock) (*redisledger.Ledger, *quota.Restoration) {
	t.Helper()
	clock.Set(noonUTC())
	l := fresh(t, server.URL(), clock.Now)
	if _, err := spend(t, l, "m", 1, perMinute); err != nil {
		t.Fatal(err)
	}
	r := &quota.Restoration{Account: account, History: 24 * time.Hour}
	for n := range 5 {
		at := clock.Now().Add(time.Duration(n-60) * time.Minute)
		r.Entries = append(r.Entries, quota.Entry{At: at, ID: quota.ID{Client: 5, Seq: uint64(n + 1)}, Method: "m", Units: 10, Calls: 1})
	}
	if _, err := l.Restore(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return l, r
}

// TestRestoredTwice: calls are restored to a log that was restored before, and
// has been charged since. All of it is listed, and stays.
func TestRestoredTwice(t *testing.T) {
	t.Parallel()
	clock := &ledgertest.Clock{}
	l, r := markedLog(t, redistest.Start(t), clock)
	for range 40 {
		clock.Add(time.Second)
		mustSpend(t, l, "m", 1, day)
	}
	for _, newest := range []bool{false, true} {
		listed := quota.Units(0)
		for e, err := range l.Entries(t.Context(), quota.Query{Account: account, Newest: newest}) {
			if err != nil {
				t.Fatal(err)
			}
			listed += e.Units
		}
		if listed != 90 {
			t.Errorf("newest first %t: calls of %d units are listed; want 90", newest, listed)
		}
	}
	if _, err := l.Restore(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got := used(t, l, day); got != 90 {
		t.Errorf("%d units after the second restoration; want 90", got)
	}
}

// TestRestoredLogKeepsNoneAgain: nothing asks for the entries of a restored log
// any more. It becomes one record, of the newest timestamp, as without a
// restoration.
func TestRestoredLogKeepsNoneAgain(t *testing.T) {
	t.Parallel()
	clock := &ledgertest.Clock{}
	server := redistest.Start(t)
	l, _ := markedLog(t, server, clock)
	clock.Add(30 * 24 * time.Hour)
	for range 2 {
		clock.Add(time.Second)
		mustSpend(t, l, "m", 1, perMinute)
	}
	log := do(t, raw(t, server), "lrange", redisledger.LogKey(l, account), 0, -1).([]any)
	want := binary.BigEndian.AppendUint64(nil, uint64(clock.Now().UnixMicro()))[1:]
	if last := log[len(log)-1].(string); len(log) != 1 || last[:7] != string(want) {
		t.Errorf("%d records, the last %x; want one of %x", len(log), last, want)
	}
}
