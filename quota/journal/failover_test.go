package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// failover is two hosts on a replicated ledger, before its master goes.
type failover struct {
	*upstream
	url    string // may change
	hosts  [2]*host
	guards [2]*quota.Guard
	doubts int64
}

func startFailover(t *testing.T, url string) *failover {
	f := &failover{upstream: startUpstream(t), url: url}
	for i := range f.hosts {
		f.hosts[i] = newHost(t, func() quota.Ledger {
			l, err := redisledger.Open(f.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			return l
		})
		f.guards[i] = f.hosts[i].process()
		f.spend(t, f.guards[i], 50)
	}
	return f
}

// settle makes calls until the ledger refuses one, however long it is down.
func (f *failover) settle(t *testing.T, g *quota.Guard) {
	t.Helper()
	redistest.Await(t, "a refusal", func() bool {
		err := f.send(t, g, 2000)
		switch {
		case errors.Is(err, quota.ErrInDoubt):
			f.doubts++
		case !errors.Is(err, quota.ErrRefused) && !errors.Is(err, quota.ErrLedgerDown):
			t.Fatal(err)
		}
		return errors.Is(err, quota.ErrRefused)
	})
}

// judge checks that the upstream saw the limit and at most some calls more, and
// that the ledger holds what it saw.
func (f *failover) judge(t *testing.T, most int64) {
	t.Helper()
	hits, held := f.hits.Load(), usedOf(t, f.guards[0])
	t.Logf("%d calls reached the upstream, %d over the limit; the ledger holds %d; %d in doubt; reported %v", hits, hits-500, held, f.doubts, f.hosts[0].seen)
	if hits > 500+most || hits < 500-f.doubts || held < hits || held > hits+f.doubts {
		t.Errorf("%d calls, %d are held, %d in doubt; want 500 and at most %d more, and all held", hits, held, f.doubts, most)
	}
}

// caughtUp waits until the master's replicas have all that it has.
func caughtUp(t *testing.T, master *redistest.Server) {
	t.Helper()
	redistest.Await(t, "the replicas to catch up", func() bool {
		info := master.Info(t)
		_, rest, _ := strings.Cut(info, "master_repl_offset:")
		offset, _, _ := strings.Cut(rest, "\r\n")
		return strings.Count(info, "state=online,offset="+offset+",") == strings.Count(info, "state=online") && strings.Contains(info, "state=online")
	})
}

// cutOff keeps a master from its replicas.
func cutOff(t *testing.T, master *redistest.Server) {
	t.Helper()
	caughtUp(t, master)
	master.Do(t, "acl", "setuser", "default", "-psync", "-sync", "-replconf")
	master.Do(t, "client", "kill", "type", "replica")
	redistest.Await(t, "the replicas to be gone", func() bool { return strings.Contains(master.Info(t), "connected_slaves:0") })
}

func promoted(t *testing.T, group *redistest.Sentinels, old *redistest.Server) {
	t.Helper()
	redistest.Await(t, "a failover", func() bool {
		now := group.Present(t)
		return now != nil && now != old && strings.Contains(now.Info(t), "role:master")
	})
}

func sentinelURL(group *redistest.Sentinels) string {
	return "redis+sentinel://" + group.Addrs() + "/" + redistest.Master
}

// TestFailoverToAReplicaThatWasCutOff: the 300 calls that no replica has are in
// the new master before it grants anything.
func TestFailoverToAReplicaThatWasCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for failovers, 11 seconds")
	}
	t.Parallel()
	group := redistest.StartSentinels(t)
	f := startFailover(t, sentinelURL(group))
	old := group.Present(t)
	cutOff(t, old)
	f.spend(t, f.guards[1], 150)
	f.spend(t, f.guards[0], 150)
	old.Stop()
	promoted(t, group, old)
	f.settle(t, f.guards[0])
	f.settle(t, f.guards[1])
	f.judge(t, 0)
}

// TestClusterOwnerThatWasCutOffDies is the same in a cluster.
func TestClusterOwnerThatWasCutOffDies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a failover, 6 seconds")
	}
	t.Parallel()
	cluster := redistest.StartCluster(t)
	f := startFailover(t, "redis+cluster://"+cluster.Addrs())
	owner, _ := cluster.Owner(t, "{"+account+"}")
	cutOff(t, owner)
	f.spend(t, f.guards[1], 150)
	f.spend(t, f.guards[0], 150)
	owner.Stop()
	redistest.Await(t, "a failover", func() bool {
		for _, node := range cluster.Nodes {
			if node != owner && strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:fail") {
				return false
			}
		}
		now, _ := cluster.Owner(t, "{"+account+"}")
		return now != owner
	})
	f.settle(t, f.guards[0])
	f.settle(t, f.guards[1])
	f.judge(t, 0)
}

// TestPlannedFailoverGrantsTwice: what the old master grants until the clients
// leave it is restored.
func TestPlannedFailoverGrantsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for failovers, 9 seconds")
	}
	t.Parallel()
	group := redistest.StartSentinels(t)
	f := startFailover(t, sentinelURL(group))
	old := group.Present(t)
	redistest.Await(t, "the failover to begin", func() bool {
		return group.Sentinels[0].Client(t).Do(context.Background(), "sentinel", "failover", redistest.Master).Err() == nil
	})
	redistest.Await(t, "a replica to be promoted", func() bool {
		return strings.Contains(group.Servers[1].Info(t)+group.Servers[2].Info(t), "role:master")
	})
	f.spend(t, f.guards[0], 100) // mostly on the old master: the sentinels tell the clients a second later
	promoted(t, group, old)
	now := group.Present(t)
	old.Do(t, "replicaof", now.Host(), now.Port()) // what the sentinels do after some ten seconds
	redistest.Await(t, "the old master to follow", func() bool { return strings.Contains(old.Info(t), "master_link_status:up") })
	f.spend(t, f.guards[1], 20) // it has not heard of these
	f.settle(t, f.guards[0])
	f.settle(t, f.guards[1])
	f.judge(t, 0)
}

// TestClientsOnBothMasters: while two masters live, each grants what is left.
// That is not closed. When the old one has become a replica, the new one holds
// the calls of both, and grants no more.
func TestClientsOnBothMasters(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a failover, 7 seconds")
	}
	t.Parallel()
	old := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", old.Host()+" "+old.Port(), "--repl-diskless-sync-delay", "0")
	redistest.Await(t, "the replica to follow", func() bool { return strings.Contains(replica.Info(t), "master_link_status:up") })
	f := startFailover(t, old.URL())
	caughtUp(t, old)
	replica.Do(t, "replicaof", "no", "one")
	f.settle(t, f.guards[0]) // the old master
	f.url = replica.URL()
	f.guards[1] = f.hosts[1].process()
	f.settle(t, f.guards[1])
	if hits := f.hits.Load(); hits != 900 {
		t.Errorf("%d calls reached the upstream; want 500, and the 400 that were left again", hits)
	}
	old.Do(t, "replicaof", replica.Host(), replica.Port())
	f.guards[0] = f.hosts[0].process()
	f.settle(t, f.guards[0])
	f.settle(t, f.guards[1])
	f.judge(t, 400)
}

// TestWaitingForReplicasLosesCalls: grants that wait for both replicas survive
// a planned failover without any journal. Those of the old master are in doubt.
func TestWaitingForReplicasLosesCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for failovers, 9 seconds")
	}
	t.Parallel()
	group := redistest.StartSentinels(t)
	u := startUpstream(t)
	l, err := redisledger.Open(sentinelURL(group)+"?wait_replicas=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	g, err := quota.NewGuard(l, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	u.spend(t, g, 100)
	old := group.Present(t)
	redistest.Await(t, "the failover to begin", func() bool {
		return group.Sentinels[0].Client(t).Do(context.Background(), "sentinel", "failover", redistest.Master).Err() == nil
	})
	doubts := int64(0)
	redistest.Await(t, "a failover", func() bool {
		if errors.Is(u.send(t, g, 1), quota.ErrInDoubt) {
			doubts++
		}
		now := group.Present(t)
		return now != nil && now != old
	})
	now := group.Present(t)
	old.Do(t, "replicaof", now.Host(), now.Port())
	redistest.Await(t, "a refusal", func() bool {
		err := u.send(t, g, 1000)
		if errors.Is(err, quota.ErrInDoubt) {
			doubts++
		}
		return errors.Is(err, quota.ErrRefused)
	})
	t.Logf("%d calls reached the upstream, %d were in doubt", u.hits.Load(), doubts)
	if hits := u.hits.Load(); hits > 500 || hits < 500-doubts {
		t.Errorf("%d calls reached the upstream, %d were in doubt; want 500", hits, doubts)
	}
}

// TestMinReplicasLoseCalls: with min-replicas-to-write 1 a master that is cut
// off grants nothing, and the new one has all calls, without any journal.
func TestMinReplicasLoseCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for failovers, 12 seconds")
	}
	t.Parallel()
	for range 3 {
		hits, failovers := failOverWithMinReplicas(t)
		if failovers != 1 { // the new master was slow, and has lost what no replica had yet
			continue
		}
		if hits != 500 {
			t.Errorf("%d calls reached the upstream; want 500", hits)
		}
		return
	}
	t.Error("Sentinel has replaced the new master too, in each of three tries: this machine is too busy")
}

// failOverWithMinReplicas cuts a master off and kills it. It returns how many
// calls reached the upstream, and how often Sentinel has promoted a replica.
func failOverWithMinReplicas(t *testing.T) (hits int64, failovers int) {
	group := redistest.StartSentinels(t, "--min-replicas-to-write", "1")
	u := startUpstream(t)
	l, err := redisledger.Open(sentinelURL(group), nil)
	must(t, err)
	defer l.Close()
	g, err := quota.NewGuard(l, budgets, nil)
	must(t, err)
	u.spend(t, g, 100)
	old := group.Present(t)
	cutOff(t, old)
	if err := u.send(t, g, 1); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerDown: the master has no replica", err)
	}
	old.Stop()
	promoted(t, group, old)
	redistest.Await(t, "a refusal", func() bool { return errors.Is(u.send(t, g, 1000), quota.ErrRefused) })
	return u.hits.Load(), group.Failovers(t)
}

func usedOf(t *testing.T, g *quota.Guard) int64 {
	t.Helper()
	balances, err := g.Balances(t.Context())
	if err != nil || len(balances) != 1 {
		t.Fatal(balances, err)
	}
	return int64(balances[0].Used)
}
