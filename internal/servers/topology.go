package servers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client returns a client of this server, which is closed when the test ends.
func (s *Redis) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do sends a command to this server and returns the reply. The test fails if
// the command does.
func (s *Redis) Do(t testing.TB, args ...any) any {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr, DialerRetries: 1})
	defer c.Close()
	value, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("redistest: %s: %v: %v", s.Addr, args, err)
	}
	return value
}

// Host returns the server's address without its port.
func (s *Redis) Host() string {
	host, _, _ := strings.Cut(s.Addr, ":")
	return host
}

// Port returns the server's port.
func (s *Redis) Port() string {
	_, port, _ := strings.Cut(s.Addr, ":")
	return port
}

// Await polls until done reports true. The test fails after 20 seconds.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("redistest: timed out waiting for %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// RedisCluster is a Redis Cluster of a test: three masters with a replica each.
type RedisCluster struct {
	Nodes []*Redis // first the initial masters, then their replicas
}

// Slots is the number of slots in a cluster.
const Slots = 16384

// StartRedisCluster starts a cluster of three masters and three replicas. A
// node fails over after a second. The cluster is ready when StartCluster
// returns.
func StartRedisCluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	c := &RedisCluster{}
	for range 6 {
		c.Nodes = append(c.Nodes,
			StartRedis(t, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
				"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)...))
	}
	for i, node := range c.Nodes {
		node.Do(t, "cluster", "set-config-epoch", i+1)
		if i > 0 {
			node.Do(t, "cluster", "meet", c.Nodes[0].Host(), c.Nodes[0].Port())
		}
	}
	for i := range 3 {
		c.Nodes[i].AddSlots(t, i*Slots/3, (i+1)*Slots/3)
	}
	for i, node := range c.Nodes[3:] {
		id, client := c.Nodes[i].Do(t, "cluster", "myid"), node.Client(t)
		Await(t, "a master to be known", func() bool {
			return client.Do(context.Background(), "cluster", "replicate", id).Err() == nil
		})
	}
	for _, node := range c.Nodes {
		Await(t, "the cluster to be ready", func() bool {
			return strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok") &&
				strings.Count(node.Do(t, "cluster", "nodes").(string), "slave ") == 3
		})
	}
	for _, node := range c.Nodes[3:] {
		Await(t, "the replicas to follow",
			func() bool { return strings.Contains(node.Info(t), "master_link_status:up") })
	}
	return c
}

// AddSlots assigns the slots at or after from and before before to a node.
func (s *Redis) AddSlots(t testing.TB, from, before int) {
	t.Helper()
	slots := []any{"cluster", "addslots"}
	for slot := from; slot < before; slot++ {
		slots = append(slots, slot)
	}
	s.Do(t, slots...)
}

// Info returns the server's INFO replication.
func (s *Redis) Info(t testing.TB) string {
	t.Helper()
	return s.Do(t, "info", "replication").(string)
}

// Addrs returns the addresses of all nodes, separated by commas.
func (c *RedisCluster) Addrs() string { return addrs(c.Nodes) }

func addrs(servers []*Redis) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr)
	}
	return strings.Join(all, ",")
}

// Owner returns the master of a key's slot, and the slot.
func (c *RedisCluster) Owner(t testing.TB, key string) (*Redis, int) {
	t.Helper()
	slot := 0
	for _, node := range c.Nodes {
		if !ping(node.Addr) {
			continue
		}
		slot = int(node.Do(t, "cluster", "keyslot", key).(int64))
		for _, shard := range node.Do(t, "cluster", "slots").([]any) { // Redis 6.2 has no SHARDS
			part := shard.([]any)
			if int64(slot) < part[0].(int64) || int64(slot) > part[1].(int64) {
				continue
			}
			master := part[2].([]any)
			for _, owner := range c.Nodes {
				if owner.Addr == fmt.Sprintf("%v:%v", master[0], master[1]) {
					return owner, slot
				}
			}
		}
	}
	t.Fatalf("redistest: slot %d has no owner", slot)
	return nil, 0
}

// Sentinels is a master with two replicas, monitored by three sentinels.
type Sentinels struct {
	Servers   []*Redis // first the initial master, then its replicas
	Sentinels []*Redis
}

// Master is the sentinels' name for the master.
const Master = "main"

// StartSentinels starts the servers and the sentinels. A master that does not
// reply for a second fails over.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	s := &Sentinels{Servers: []*Redis{StartRedis(t, args...)}}
	for range 2 {
		replica := StartRedis(t, append([]string{"--replicaof", s.Servers[0].Host() + " " + s.Servers[0].Port(),
			"--repl-diskless-sync-delay", "0"}, args...)...)
		s.Servers = append(s.Servers, replica)
	}
	for _, replica := range s.Servers[1:] {
		Await(t, "the replicas to follow",
			func() bool { return strings.Contains(replica.Info(t), "master_link_status:up") })
	}
	for range 3 {
		s.Sentinels = append(s.Sentinels, StartSentinel(t, s.Servers[0].Port(), 2))
	}
	for _, sentinel := range s.Sentinels {
		Await(t, "the sentinels to know each other", func() bool {
			state := fmt.Sprint(sentinel.Do(t, "info", "sentinel"))
			return strings.Contains(state, "status=ok,address="+s.Servers[0].Addr+",slaves=2,sentinels=3")
		})
	}
	return s
}

// StartSentinel starts one sentinel for a master on a loopback port. quorum is
// how many sentinels must agree that the master is down.
func StartSentinel(t testing.TB, port string, quorum int, args ...string) *Redis {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]s %[3]d\nsentinel down-after-milliseconds %[1]s "+
		"1000\nsentinel failover-timeout %[1]s 3000\n",
		Master, port, quorum)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return startRedis(t, nil, append([]string{file, "--sentinel"}, args...))
}

// Addrs returns the addresses of the sentinels, separated by commas.
func (s *Sentinels) Addrs() string { return addrs(s.Sentinels) }

// Present returns the current master according to the sentinels, or nil if no
// sentinel replies.
func (s *Sentinels) Present(t testing.TB) *Redis {
	t.Helper()
	for _, sentinel := range s.Sentinels {
		if !ping(sentinel.Addr) {
			continue
		}
		addr := sentinel.Do(t, "sentinel", "get-master-addr-by-name", Master).([]any)
		for _, server := range s.Servers {
			if server.Addr == fmt.Sprintf("%v:%v", addr...) {
				return server
			}
		}
	}
	return nil
}
