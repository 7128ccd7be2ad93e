package redisledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestSpendingGoesOnWhileAClusterChanges runs on three masters and three
// replicas. Its subtests depend on their order.
func TestSpendingGoesOnWhileAClusterChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster of six nodes and waits for failovers, 8 seconds")
	}
	t.Parallel()
	cluster := redistest.StartCluster(t)
	url := "redis+cluster://" + cluster.Addrs()
	t.Run("names stay in their slot", func(t *testing.T) { namesStay(t, cluster, url) })
	t.Run("slots move while spending", func(t *testing.T) { slotsMove(t, cluster, url, 6) })
	t.Run("half a slot", func(t *testing.T) { halfASlot(t, cluster, url) })
	t.Run("a node hangs while spending", func(t *testing.T) { nodeHangs(t, cluster, url) })
	t.Run("owners die while spending", func(t *testing.T) { ownersDie(t, cluster, url, 1) })
}

// TestSoakCluster runs TestSpendingGoesOnWhileAClusterChanges for minutes.
func TestSoakCluster(t *testing.T) {
	soak(t)
	cluster := redistest.StartCluster(t)
	url := "redis+cluster://" + cluster.Addrs()
	slotsMove(t, cluster, url, 100)
	ownersDie(t, cluster, url, 12)
}

// namesStay checks that all keys of an account and key are in one slot,
// whatever their names, and shared with no other account.
func namesStay(t *testing.T, cluster *redistest.Cluster, url string) {
	names := []string{"a}b{c", "}", "{}", "{", "}{", "{{a}}", "]]", `"]]..redis.call("FLUSHALL")--`, "a\x00b", "a\nb", "\xff\xfe", "a:b", "%7D", "ünï", strings.Repeat("}", 200)}
	seen := map[string]bool{}
	for i, name := range names {
		prefix := fmt.Sprintf("names%d{x}", i)
		l, err := redisledger.Open(url, &redisledger.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		day := charge(name, 1000, quota.Sliding(time.Hour))
		some := charge(name+"m", 1000, quota.Sliding(time.Hour), name)
		guess := charge(name+"c", 1000, quota.Counter(time.Hour))
		for _, key := range []string{"", name} {
			batch := &quota.Batch{Account: name, Key: key, Requests: []quota.Request{{Method: name[:min(len(name), 100)], Units: 7, Charges: []*quota.Charge{day, some, guess}}}}
			answers, err := l.Spend(context.Background(), batch)
			if err != nil || answers[0].Err != nil {
				t.Fatalf("%q: %v %v", name, err, answers)
			}
			standings, err := l.Standings(context.Background(), name, key, []*quota.Charge{day})
			if err != nil || standings[0].Used != 7 {
				t.Errorf("%q: %v %v; want 7 units", name, standings, err)
			}
		}
		if err := l.SetCooldown(context.Background(), quota.Cooldown{Account: name, Budget: name, Until: time.Now().Add(time.Hour), Reason: name}); err != nil {
			t.Errorf("%q: cooldown: %v", name, err)
		}
		_ = l.Close()
		slots := map[any]bool{}
		for _, node := range cluster.Nodes[:3] {
			for _, key := range node.Do(t, "keys", "names*").([]any) {
				key := key.(string)
				if seen[key] || strings.Contains(key, ":spelled:") { // which no script uses
					continue
				}
				seen[key] = true
				slots[node.Do(t, "cluster", "keyslot", key)] = true
				if strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:{}%._-") != "" || strings.Count(key, "{") != 1 || strings.Count(key, "}") != 1 {
					t.Errorf("%q is in the key %q", name, key)
				}
			}
		}
		if len(slots) != 1 {
			t.Errorf("%q is in %d slots", name, len(slots))
		}
	}
}

// slotsMove moves the account's slot from master to master, key by key. Every
// grant is in the log exactly once.
func slotsMove(t *testing.T, cluster *redistest.Cluster, url string, rounds int) {
	// On a busy machine an answer can take a second while a slot is moved.
	crowd := startCrowdOn(t, redisledger.OpenPatient, url, "moves", 6)
	tag := "{" + account + "}"
	before := 0
	for round := range rounds {
		awaitSpends(t, crowd, &before)
		from, slot := cluster.Owner(t, tag)
		to := cluster.Nodes[round%3]
		if to == from {
			to = cluster.Nodes[(round+1)%3]
		}
		moveSlot(t, cluster, from, to, slot)
	}
	awaitSpends(t, crowd, &before)
	v := crowd.finish(t, crowd.spenders[0].ledger)
	if v.lost > 0 || v.doubts > 0 {
		t.Errorf("%s; want none lost or in doubt: no answer was", v)
	}
	exactly(t, crowd.ledgers()...)
}

// halfASlot: while the keys of an account are on two nodes, spends fail in time
// and write nothing. They succeed once the keys are on one node again.
func halfASlot(t *testing.T, cluster *redistest.Cluster, url string) {
	l := fresh(t, url, nil)
	mustSpend(t, l, "m", 100, day)
	from, slot := cluster.Owner(t, "{"+account+"}")
	to := cluster.Nodes[0]
	if to == from {
		to = cluster.Nodes[1]
	}
	to.Do(t, "cluster", "setslot", slot, "importing", from.Do(t, "cluster", "myid"))
	from.Do(t, "cluster", "setslot", slot, "migrating", to.Do(t, "cluster", "myid"))
	from.Do(t, "migrate", to.Host(), to.Port(), redisledger.LogKey(l, account), 0, 1000)
	began := time.Now()
	_, err := spend(t, l, "m", 100, day)
	if took := time.Since(began); !errors.Is(err, quota.ErrLedgerDown) || !strings.Contains(err.Error(), "TRYAGAIN") || took > tolerated {
		t.Errorf("%v after %s; want ErrLedgerDown for TRYAGAIN in about a second", err, took)
	}
	moveSlot(t, cluster, from, to, slot)
	mustSpend(t, l, "m", 100, day)
	if sum := used(t, l, day); sum != 200 {
		t.Errorf("%d units; want 200", sum)
	}
}

// awaitSpends waits until the ledger holds a few hundred entries more.
func awaitSpends(t *testing.T, c *crowd, before *int) {
	t.Helper()
	redistest.Await(t, "spends", func() bool {
		s, err := c.spenders[0].ledger.Standings(context.Background(), account, "", []*quota.Charge{crowded})
		if err != nil || int(s[0].Used) < *before+100 {
			return false
		}
		*before = int(s[0].Used)
		return true
	})
}

func moveSlot(t *testing.T, cluster *redistest.Cluster, from, to *redistest.Server, slot int) {
	t.Helper()
	source, target := from.Do(t, "cluster", "myid"), to.Do(t, "cluster", "myid")
	to.Do(t, "cluster", "setslot", slot, "importing", source)
	from.Do(t, "cluster", "setslot", slot, "migrating", target)
	for {
		keys := from.Do(t, "cluster", "getkeysinslot", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(t, "migrate", to.Host(), to.Port(), keys[0], 0, 1000)
		<-time.After(5 * time.Millisecond) // half of the log is on each node
	}
	for _, node := range []*redistest.Server{to, from, cluster.Nodes[0], cluster.Nodes[1], cluster.Nodes[2]} {
		node.Do(t, "cluster", "setslot", slot, "node", target)
	}
}

// nodeHangs stops the owner for less than the cluster's timeout.
func nodeHangs(t *testing.T, cluster *redistest.Cluster, url string) {
	owner, _ := cluster.Owner(t, "{"+account+"}")
	crowd := startCrowd(t, url, "hangs", 4)
	before := 0
	for _, stands := range []time.Duration{300 * time.Millisecond, 600 * time.Millisecond} {
		awaitSpends(t, crowd, &before)
		owner.Hang(t)
		<-time.After(stands)
		owner.GoOn(t)
	}
	awaitSpends(t, crowd, &before)
	if v := crowd.finish(t, crowd.spenders[0].ledger); v.lost > 0 {
		t.Errorf("%s; want none lost", v)
	}
}

// ownersDie kills the node with the account's slot. Calls that the replica did
// not have are lost; no other call is charged twice, and spending continues.
func ownersDie(t *testing.T, cluster *redistest.Cluster, url string, rounds int) {
	crowd := startCrowd(t, url, "dies", 4)
	before := 0
	for range rounds {
		awaitSpends(t, crowd, &before)
		dead, _ := cluster.Owner(t, "{"+account+"}")
		dead.Stop()
		redistest.Await(t, "a failover", func() bool {
			for _, node := range cluster.Nodes {
				if node == dead {
					continue
				}
				_, err := node.Client(t).Ping(context.Background()).Result()
				if err == nil && strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok") {
					owner, _ := cluster.Owner(t, "{"+account+"}")
					return owner != dead
				}
			}
			return false
		})
		awaitSpends(t, crowd, &before)
		if rounds > 1 {
			dead.Restart(t)
			redistest.Await(t, "the dead to follow", func() bool { return strings.Contains(dead.Info(t), "master_link_status:up") })
		}
	}
	if v := crowd.finish(t, crowd.spenders[0].ledger); v.down == 0 {
		t.Errorf("%s; the owner's death went by unseen", v)
	}
	exactly(t, crowd.ledgers()...)
}

// cutter is a proxy that loses the next answer to a script.
type cutter struct {
	listener net.Listener
	server   string
	armed    atomic.Bool
}

func startCutter(t *testing.T, server string) *cutter {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: listener, server: server}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go c.serve(client)
		}
	}()
	return c
}

func (c *cutter) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	var cut atomic.Bool
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				_ = server.Close()
				return
			}
			if bytes.Contains(buf[:n], []byte("evalsha")) && c.armed.CompareAndSwap(true, false) {
				cut.Store(true)
			}
			_, _ = server.Write(buf[:n])
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || cut.Load() {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}

// TestAnswerLostInACluster loses answers of a node, or lets it hang; clients
// learn of the node only from the cluster. A call of 100 units is charged once,
// 50 times of 50. The client given to New has go-redis' own retries.
func TestAnswerLostInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("loses 100 answers and waits for a node that hangs, 5 seconds")
	}
	t.Parallel()
	server := redistest.Start(t, "--cluster-enabled", "yes")
	cut := startCutter(t, server.Addr)
	server.Do(t, "config", "set", "cluster-announce-port", cut.listener.Addr().(*net.TCPAddr).Port)
	server.AddSlots(t, 0, redistest.Slots)
	redistest.Await(t, "the cluster", func() bool {
		return strings.Contains(server.Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	theirs := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cut.listener.Addr().String()}})
	t.Cleanup(func() { _ = theirs.Close() })
	for name, l := range map[string]*redisledger.Ledger{
		"opened": fresh(t, "redis+cluster://"+cut.listener.Addr().String(), nil),
		"given":  redisledger.New(theirs, &redisledger.Options{Prefix: "given"}),
	} {
		t.Run(name, func(t *testing.T) {
			mustSpend(t, l, "m", 1, day)
			for i := range quota.Units(50) {
				cut.armed.Store(true)
				mustSpend(t, l, "m", 100, day)
				if sum := used(t, l, day); sum != 1+100*(i+1) || cut.armed.Load() {
					t.Fatalf("%d units after %d calls of 100 and one of 1; lost: %v", sum, i+1, !cut.armed.Load())
				}
			}
			for i, stands := range []time.Duration{400 * time.Millisecond, 700 * time.Millisecond} {
				server.Hang(t)
				time.AfterFunc(stands, func() { server.GoOn(t) })
				mustSpend(t, l, "m", 100, day)
				if sum := used(t, l, day); sum != 5001+100*quota.Units(i+1) {
					t.Fatalf("%d units after the server hung for %s", sum, stands)
				}
			}
		})
	}
}
