package redisledger_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// lostCalls returns a restoration of many calls of 1 unit that a log has lost.
func lostCalls(many int, before time.Time) *quota.Restoration {
	r := &quota.Restoration{Account: account, Lost: true, History: 24 * time.Hour}
	for n := range many {
		at := before.Add(time.Duration(n-many-60) * time.Second)
		r.Entries = append(r.Entries, quota.Entry{At: at, ID: quota.ID{Client: 5, Seq: uint64(n + 1)}, Method: "list", Units: 1, Calls: 1})
	}
	return r
}

// TestEvictedWhileRestored: the server evicts the log that a restoration writes
// beside the present one, which has the nearest expiry of all: before its last
// page, or behind it.
func TestEvictedWhileRestored(t *testing.T) {
	for page := 1; page <= 3; page++ {
		t.Run(fmt.Sprint("page ", page), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client, evicts := raw(t, server), raw(t, server)
			other := redisledger.New(raw(t, server), nil)
			call := mustSpend(t, other, "list", 1, day)
			pages := 0
			client.AddHook(after{"rpush", func() {
				if pages++; pages != page {
					return
				}
				for _, key := range evicts.Keys(t.Context(), "*:r*").Val() {
					if strings.Contains(key, "log:r") {
						evicts.Del(t.Context(), key)
					}
				}
			}})
			done, err := redisledger.New(client, nil).Restore(t.Context(), lostCalls(2500, call.At))
			if got := used(t, other, day); err != nil || got != 2501 || done.Entries != 2500 {
				t.Errorf("%d units, %d entries restored, %v; want 2501", got, done.Entries, err)
			}
		})
	}
}

// TestChangedWhileRestored: while a log is restored, another process changes
// its records so that its totals stay. All of that stays.
func TestChangedWhileRestored(t *testing.T) {
	searches := charge("searches", 4000, quota.Sliding(24*time.Hour), "search")
	calls := &quota.Charge{Budget: "calls", Coverage: quota.NewCoverage(quota.Coverage{Measure: quota.Calls}), Limit: 1000, Window: quota.Sliding(24 * time.Hour)}
	for name, test := range map[string]struct {
		before func(t *testing.T, other *redisledger.Ledger) (change func() error)
		of     *quota.Charge
		want   quota.Units
	}{
		"two settled": {func(t *testing.T, other *redisledger.Ledger) func() error {
			dear, cheap := mustSpend(t, other, "search", 1, day, searches), mustSpend(t, other, "list", 100, day)
			mustSpend(t, other, "list", 1, day)
			return func() error {
				if err := other.Settle(t.Context(), dear, 100); err != nil {
					return err
				}
				return other.Settle(t.Context(), cheap, 1)
			}
		}, searches, 100},
		"one of 0 units refunded": {func(t *testing.T, other *redisledger.Ledger) func() error {
			free := mustSpend(t, other, "list", 1, day, calls)
			mustSpend(t, other, "list", 1, day, calls)
			if err := other.Settle(t.Context(), free, 0); err != nil {
				t.Fatal(err)
			}
			return func() error { return other.Refund(t.Context(), free) }
		}, calls, 1 + 1},
		"restored in the place of a note": {replaceNote, searches, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client, other := raw(t, server), redisledger.New(raw(t, server), nil)
			change := test.before(t, other)
			done := false
			client.AddHook(after{"time", func() { // between the listing and the new log
				if !done {
					done = true
					if err := change(); err != nil {
						t.Error(err)
					}
				}
			}})
			if _, err := redisledger.New(client, nil).Restore(t.Context(), lostCalls(1, time.Now())); err != nil {
				t.Fatal(err)
			}
			if got := used(t, other, test.of); got != test.want || !done {
				t.Errorf("%d are in use; want %d", got, test.want)
			}
		})
	}
}

// replaceNote has a host restore a log with a note of what another one had
// spent, for which the change that it returns then restores that one's call.
func replaceNote(t *testing.T, other *redisledger.Ledger) (change func() error) {
	at := time.Now().Add(-10 * time.Minute).Truncate(time.Microsecond)
	lives := []quota.Life{{Client: 1, Epoch: 77, Since: at}, {Client: 9, Epoch: 77, Since: at}}
	heard := quota.WindowUse{Client: 9, Budget: "day", Coverage: day.Coverage, Since: at.Add(-24 * time.Hour), At: at, Used: 5000, Epoch: 77}
	own := quota.Entry{At: at, ID: quota.ID{Client: 1, Seq: 1}, Method: "list", Units: 2000, Calls: 1}
	first := &quota.Restoration{Account: account, Lost: true, History: 24 * time.Hour, Entries: []quota.Entry{own}, Heard: []quota.WindowUse{heard}, Lives: lives}
	if _, err := other.Restore(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	mustSpend(t, other, "list", 1, day)
	absent := quota.Entry{At: at.Add(-10 * time.Minute), ID: quota.ID{Client: 2, Seq: 1}, Method: "search", Units: 3000, Calls: 1}
	second := &quota.Restoration{Account: account, Lost: true, History: 24 * time.Hour, Entries: []quota.Entry{absent}, Lives: []quota.Life{{Client: 2, Epoch: 77, Since: absent.At}}}
	return func() error {
		_, err := other.Restore(t.Context(), second)
		return err
	}
}

// TestMetaIsDeletedWhileRestored: while a log is restored, its meta is deleted,
// and another process begins a life of the account in which methods have other
// numbers. The restored calls have those.
func TestMetaIsDeletedWhileRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, deletes := raw(t, server), raw(t, server)
	call := mustSpend(t, redisledger.New(raw(t, server), nil), "list", 1, day)
	restoring := true
	client.AddHook(after{"rpush", func() {
		if restoring {
			restoring = false
			deletes.Del(t.Context(), deletes.Keys(t.Context(), "*:meta").Val()...)
			mustSpend(t, redisledger.New(raw(t, server), nil), "search", 1, day)
		}
	}})
	l := redisledger.New(client, nil)
	if _, err := l.Restore(t.Context(), lostCalls(3, call.At)); err != nil {
		t.Fatal(err)
	}
	methods := map[string]int{}
	for _, e := range entries(t, l) {
		methods[e.Method]++
	}
	if want := map[string]int{"list": 3, "search": 1, quota.OtherMethod: 1}; !maps.Equal(methods, want) {
		t.Errorf("calls of %v; want %v: the one before the restoration has no number any more", methods, want)
	}
}

// TestHeadTurnsWhileRestored: other processes change the account's head after
// each script of a restoration, 40 times. The server is up, so the restoration
// goes on, and leaves nothing beside the log.
func TestHeadTurnsWhileRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, other := raw(t, server), raw(t, server)
	call := mustSpend(t, redisledger.New(other, nil), "list", 1, day)
	turn := redis.NewScript("return redis.call('HSET', KEYS[1], 'head', string.sub(redis.call('HGET', KEYS[1], 'head'), 1, 8) .. struct.pack('>I3B', ARGV[1], 1))")
	meta, turns := do(t, other, "keys", "*:meta").([]any)[0].(string), 0
	client.AddHook(after{"evalsha", func() {
		if turns++; turns <= 40 {
			if err := turn.Run(t.Context(), other, []string{meta}, turns+1000).Err(); err != nil {
				t.Error(err)
			}
		}
	}})
	l := redisledger.New(client, nil)
	_, err := l.Restore(t.Context(), lostCalls(3, call.At))
	if got := used(t, l, day); err != nil || got != 4 || turns <= 40 {
		t.Errorf("%d units, %v; want 4", got, err)
	}
	if left := do(t, other, "keys", "*:r*").([]any); len(left) > 0 {
		t.Errorf("%d keys are left, such as %s", len(left), left[0])
	}
}

// TestEmptyLogGrowsWhileRestored: there is nothing to restore to an empty log,
// which gets its first call meanwhile. The call stays, and nothing is left
// beside the log.
func TestEmptyLogGrowsWhileRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, other := raw(t, server), raw(t, server)
	grown := false
	client.AddHook(after{"time", func() {
		if !grown {
			grown = true
			mustSpend(t, redisledger.New(other, nil), "list", 5, day)
		}
	}})
	l := redisledger.New(client, nil)
	_, err := l.Restore(t.Context(), &quota.Restoration{Account: account, Lost: true, History: 24 * time.Hour})
	if got := used(t, l, day); err != nil || got != 5 || !grown {
		t.Errorf("%d units, %v; want 5", got, err)
	}
	if left := do(t, other, "keys", "*:r*").([]any); len(left) > 0 {
		t.Errorf("%d keys are left, such as %s", len(left), left[0])
	}
}
