package redisledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestPassingFaults: a server that refuses commands for a while is down after
// about a second, not in doubt, and is used again when it is back. A fault
// shorter than a second is waited for.
func TestPassingFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("waits seconds for servers that loop, load and restart")
	}
	t.Parallel()
	server := redistest.Start(t, "--busy-reply-threshold", "200", "--loading-process-events-interval-bytes", "1024")
	l := fresh(t, server.URL(), nil)
	mustSpend(t, l, "m", 1, day)
	t.Run("BUSY", func(t *testing.T) { scriptLoops(t, server, l) })
	t.Run("OOM", func(t *testing.T) {
		server.Do(t, "config", "set", "maxmemory", "1mb")
		mustBeDown(t, l, "OOM")
		server.Do(t, "config", "set", "maxmemory", "0")
		mustSpend(t, l, "m", 1, day)
	})
	t.Run("maxclients", func(t *testing.T) {
		client := server.Client(t)
		do(t, client, "config", "set", "maxclients", "1")
		do(t, client, "client", "kill", "type", "normal", "skipme", "yes")
		mustBeDown(t, l, "max number of clients reached; close some of its clients")
		do(t, client, "config", "set", "maxclients", "1000")
		mustSpend(t, l, "m", 1, day)
	})
	t.Run("restarts", func(t *testing.T) { serverRestarts(t, server, l) })
	t.Run("LOADING", func(t *testing.T) {
		server.Do(t, "eval", "for i = 1, 5000 do redis.call('set', 'x' .. i, string.rep('x', 100)) end return 1", 0)
		server.Do(t, "save")
		server.Stop()
		server.Restart(t, "--key-load-delay", "400")
		mustBeDown(t, l, "LOADING")
		client := server.Client(t)
		redistest.Await(t, "the server", func() bool { return client.Do(context.Background(), "dbsize").Err() == nil })
		mustSpend(t, l, "m", 1, day)
	})
	times := map[quota.ID]int{}
	for _, e := range entries(t, l) {
		if times[e.ID]++; times[e.ID] > 1 {
			t.Errorf("%v is charged twice", e.ID)
		}
	}
}

// loading is a hook that has the next commands fail as a server that is loading
// its data fails them.
type loading struct{ left int }

type loadingError struct{}

func (loadingError) Error() string { return "LOADING Redis is loading the dataset in memory" }

func (loadingError) RedisError() {}

func (h *loading) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *loading) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *loading) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.left > 0 {
			h.left--
			return loadingError{}
		}
		return next(ctx, cmd)
	}
}

// TestServerThatLoadsForHalfASecondIsWaitedFor: the deadline alone limits
// the tries.
func TestServerThatLoadsForHalfASecondIsWaitedFor(t *testing.T) {
	server := redistest.Start(t)
	given, hook := raw(t, server), &loading{}
	given.AddHook(hook)
	l := redisledger.New(given, nil)
	mustSpend(t, l, "m", 1, day)
	redistest.Await(t, "a grant", func() bool { // at the first spend, where the machine is not busy
		hook.left = 8
		_, err := spend(t, l, "m", 1, day)
		if err != nil && !errors.Is(err, quota.ErrLedgerDown) && !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("%v; want a grant, or no answer in time", err)
		}
		return err == nil
	})
}

func mustBeDown(t *testing.T, l quota.Ledger, text string) {
	t.Helper()
	var began time.Time
	var err error
	redistest.Await(t, "an answer", func() bool { // at the first spend, where the machine is not busy
		began = time.Now()
		_, err = spend(t, l, "m", 1, day)
		return !errors.Is(err, quota.ErrInDoubt)
	})
	if took := time.Since(began); !errors.Is(err, quota.ErrLedgerDown) || !strings.Contains(err.Error(), text) || took > tolerated {
		t.Errorf("%v after %s; want ErrLedgerDown for %q in about a second", err, took, text)
	}
}

// scriptLoops runs another client's endless script. It is killed once after a
// spend has failed, and once while a spend waits.
func scriptLoops(t *testing.T, server *redistest.Server, l quota.Ledger) {
	client := server.Client(t)
	for _, waits := range []bool{false, true} {
		other, done := server.Client(t), make(chan struct{})
		go func() {
			defer close(done)
			other.Do(context.Background(), "eval", "while true do end", 0)
		}()
		redistest.Await(t, "BUSY", func() bool {
			return redis.HasErrorPrefix(client.Do(context.Background(), "get", "x").Err(), "BUSY")
		})
		if waits {
			time.AfterFunc(300*time.Millisecond, func() { client.Do(context.Background(), "script", "kill") })
			mustSpend(t, l, "m", 1, day)
		} else {
			mustBeDown(t, l, "BUSY")
			do(t, client, "script", "kill")
		}
		<-done
		mustSpend(t, l, "m", 1, day)
	}
}

// serverRestarts restarts the server with its data, in less than a second and
// in more.
func serverRestarts(t *testing.T, server *redistest.Server, l quota.Ledger) {
	server.Do(t, "save")
	server.Stop()
	back := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() {
		defer close(back)
		server.Restart(t)
	})
	redistest.Await(t, "a grant", func() bool { // at the first try, unless the machine is busy
		_, err := spend(t, l, "m", 1, day)
		if err != nil && !errors.Is(err, quota.ErrLedgerDown) {
			t.Errorf("%v; want a grant, or ErrLedgerDown", err)
		}
		return err == nil
	})
	<-back
	server.Stop()
	mustBeDown(t, l, "")
	server.Restart(t)
	mustSpend(t, l, "m", 1, day)
}

// TestAnotherTopology: a URL with the wrong scheme for the servers is a
// configuration error that names the right one.
func TestAnotherTopology(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and sentinels, 2 seconds")
	}
	t.Parallel()
	alone, one, two := redistest.Start(t), redistest.Start(t, "--cluster-enabled", "yes"), redistest.Start(t, "--cluster-enabled", "yes")
	one.AddSlots(t, 0, redistest.Slots)
	two.Do(t, "cluster", "meet", one.Host(), one.Port())
	redistest.Await(t, "the cluster", func() bool {
		return strings.Contains(two.Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	for url, scheme := range map[string]string{
		two.URL():                       "write redis+cluster://",
		"redis+cluster://" + alone.Addr: "write redis://",
		"redis+sentinel://" + alone.Addr + "/main":    "",
		"redis+sentinel://" + one.Addr + "/s3cret%0A": "",
	} {
		_, err := spend(t, fresh(t, url, nil), "m", 1, day)
		if !errors.Is(err, quota.ErrLedgerConfig) || !strings.Contains(err.Error(), scheme) {
			t.Errorf("%s: %v; want ErrLedgerConfig with %q", url, err, scheme)
		}
	}
}

// TestLeastRights: a user with only the rights that docs/redis.md names can
// call every method, on one server, in a cluster and with sentinels.
func TestLeastRights(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a cluster, 2 seconds")
	}
	t.Parallel()
	rights := redisledger.LeastRights(t)
	for _, right := range rights {
		command, is := strings.CutPrefix(right.(string), "+")
		if is && !strings.Contains("evalsha eval scan cluster|slots", command) && !redisledger.ScriptsCall(t, command) {
			t.Errorf("no script calls %s; take the right away", command)
		}
	}
	setUser := append([]any{"acl", "setuser", "ration"}, rights...)
	alone, node := redistest.Start(t), redistest.Start(t, "--cluster-enabled", "yes")
	node.AddSlots(t, 0, redistest.Slots)
	redistest.Await(t, "the cluster", func() bool {
		return strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	for url, server := range map[string]*redistest.Server{"redis://ration:s3cret@" + alone.Addr: alone, "redis+cluster://ration:s3cret@" + node.Addr: node} {
		server.Do(t, setUser...)
		l, err := redisledger.Open(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		everything(t, l)
		found, err := l.Inspect(t.Context())
		if err != nil || len(found) == 0 {
			t.Errorf("inspect: %v, %v", found, err)
		}
		for _, entry := range server.Do(t, "acl", "log").([]any) {
			if object := entry.(map[any]any)["object"]; object != "info" && object != "config|get" {
				t.Errorf("%v was asked for, and is not among the least rights", object)
			}
		}
		other, err := redisledger.Open(url, &redisledger.Options{Prefix: "other"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close() })
		if _, err := spend(t, other, "m", 1, day); !errors.Is(err, quota.ErrLedgerConfig) {
			t.Errorf("another prefix: %v; want ErrLedgerConfig", err)
		}
	}
}

// everything calls every method of a ledger.
func everything(t *testing.T, l *redisledger.Ledger) {
	t.Helper()
	ctx := t.Context()
	some := charge("some", 1000, quota.Sliding(time.Hour), "m")
	guess := charge("guess", 1000, quota.Counter(time.Minute))
	r := mustSpend(t, l, "m", 10, day, some, guess, charge("today", 1000, quota.Daily(time.UTC)))
	batch := &quota.Batch{Account: account, Key: "key", Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day, some}}}}
	each := &quota.Batch{Account: account, Key: strings.Repeat("long ", 20), Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}}
	for _, b := range []*quota.Batch{batch, each} {
		if _, err := l.Spend(ctx, b); err != nil {
			t.Error(err)
		}
	}
	counted := quota.Batch{Account: "counted", Requests: []quota.Request{{Method: "m", Units: 1}}}
	for range 2 { // the second time the log stops keeping entries
		if _, err := l.Spend(ctx, &counted); err != nil {
			t.Error(err)
		}
		counted.Requests[0].Charges = []*quota.Charge{guess}
	}
	for range quota.MaxSettle + 2 {
		mustSpend(t, l, "n", 1, day)
	}
	last := mustSpend(t, l, "m", 10, day, some)
	until := time.Now().Add(time.Hour)
	for name, err := range map[string]error{
		"settle":        l.Settle(ctx, last, 7),
		"settle up far": l.Settle(ctx, r, 17),
		"refund":        l.Refund(ctx, last),
		"cooldown":      l.SetCooldown(ctx, quota.Cooldown{Account: account, Until: until, Reason: "said so"}),
		"clear":         l.ClearCooldown(ctx, account, ""),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := l.Restamp(ctx, account, ""); n != 0 || err != nil {
		t.Errorf("restamp: %d, %v", n, err)
	}
	restored := quota.Entry{At: time.Now().Add(-time.Minute), ID: quota.ID{Client: 5, Seq: 1}, Method: "n", Units: 1, Calls: 1}
	if _, err := l.Restore(ctx, &quota.Restoration{Account: account, Lost: true, Entries: []quota.Entry{restored}}); err != nil {
		t.Errorf("restore: %v", err)
	}
	found := 0
	for key, err := range l.Keys(ctx, account) {
		if found++; err != nil || key != "key" && len(key) < 49 {
			t.Errorf("keys: %q, %v", key, err)
		}
	}
	if found != 2 {
		t.Errorf("%d keys; want 2", found)
	}
	if len(entries(t, l)) < quota.MaxSettle || used(t, l, some) != 17 {
		t.Errorf("%d entries, %d units", len(entries(t, l)), used(t, l, some))
	}
}
