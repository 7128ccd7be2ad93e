package redisledger_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
)

// written matches how much a server has sent to its replicas, in its info.
var written = regexp.MustCompile(`master_repl_offset:([1-9][0-9]*)`)

// replicated starts a server with a replica that has confirmed a write.
func replicated(t testing.TB) (master, replica *redistest.Server) {
	master = redistest.Start(t)
	replica = redistest.Start(t, "--replicaof", master.Host()+" "+master.Port(), "--repl-diskless-sync-delay", "0")
	master.Do(t, "set", "written", "before")
	redistest.Await(t, "the replica to follow", func() bool {
		isUp := strings.Contains(replica.Info(t), "master_link_status:up")
		sent := written.FindStringSubmatch(master.Info(t))
		return isUp && sent != nil && strings.Contains(master.Info(t), "state=online,offset="+sent[1]+",")
	})
	master.Do(t, "del", "written")
	return master, replica
}

// TestGrantThatNoReplicaHas: with wait_replicas=1 a call is only granted when a
// replica has it; otherwise it is in doubt, and charged.
func TestGrantThatNoReplicaHas(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for replicas, 6 seconds")
	}
	t.Parallel()
	master, replica := replicated(t)
	l := fresh(t, master.URL()+"?wait_replicas=1", nil)
	spendReplicated(t, l)
	if held := used(t, l, day); held != 20 {
		t.Errorf("%d units; want 20", held)
	}
	replica.Do(t, "replicaof", "no", "one")
	began := time.Now()
	_, err := spend(t, l, "m", 1, day)
	if took := time.Since(began); !errors.Is(err, quota.ErrInDoubt) || errors.Is(err, quota.ErrLedgerDown) || took > tolerated {
		t.Errorf("%v after %s; want ErrInDoubt in a second", err, took)
	}
	if advice := "too few replicas answered: 0 of 1 have the grant; see that its replicas are up"; !strings.Contains(err.Error(), advice) {
		t.Errorf("%v; want %q", err, advice)
	}
	if held := used(t, l, day); held != 21 {
		t.Errorf("%d units; want the call in doubt among them", held)
	}
	limit := charge("full", 21, quota.Sliding(24*time.Hour))
	if _, err := spend(t, l, "m", 1, limit); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want a refusal, which waits for no replica", err)
	}
}

// spendReplicated makes 20 calls, of which replicas confirm some. On a busy
// machine a replica can take more than a second.
func spendReplicated(t *testing.T, l quota.Ledger) {
	t.Helper()
	granted := 0
	for range 20 {
		switch _, err := spend(t, l, "m", 1, day); {
		case err == nil:
			granted++
		case !errors.Is(err, quota.ErrInDoubt):
			t.Fatal(err)
		}
	}
	if granted == 0 {
		t.Error("no call was granted")
	}
}

// TestGrantInAClusterThatNoReplicaHas is the same on a cluster.
func TestGrantInAClusterThatNoReplicaHas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and waits for replicas, 3 seconds")
	}
	t.Parallel()
	cluster := redistest.StartCluster(t)
	l := fresh(t, "redis+cluster://"+cluster.Addrs()+"?wait_replicas=1", nil)
	spendReplicated(t, l)
	owner, _ := cluster.Owner(t, "{"+account+"}")
	owner.Do(t, "acl", "setuser", "default", "-psync", "-sync", "-replconf")
	owner.Do(t, "client", "kill", "type", "replica")
	if _, err := spend(t, l, "m", 1, day); !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%v; want ErrInDoubt", err)
	}
	if held := used(t, l, day); held != 21 {
		t.Errorf("%d units; want the call in doubt among them", held)
	}
}

// TestGrantBehindSentinelsThatNoReplicaHas is the same behind sentinels, where
// the client's own timeout is shorter than the wait.
func TestGrantBehindSentinelsThatNoReplicaHas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts sentinels and waits for replicas, 6 seconds")
	}
	t.Parallel()
	group := redistest.StartSentinels(t)
	l := fresh(t, "redis+sentinel://"+group.Addrs()+"/"+redistest.Master+"/0?wait_replicas=9", nil)
	began := time.Now()
	_, err := spend(t, l, "m", 1, day)
	if took := time.Since(began); !errors.Is(err, quota.ErrInDoubt) || took > tolerated {
		t.Errorf("%v after %s; want ErrInDoubt in a second", err, took)
	}
	if advice := "of 9 have the grant; see that its replicas are up"; !strings.Contains(err.Error(), advice) {
		t.Errorf("%v; want %q", err, advice)
	}
}

// BenchmarkWaitReplicas makes grants with and without wait_replicas in turn, so
// that other load on the machine affects both.
func BenchmarkWaitReplicas(b *testing.B) {
	master, _ := replicated(b)
	var took [2][]time.Duration
	ledgers := [2]quota.Ledger{fresh(b, master.URL(), nil), fresh(b, master.URL()+"?wait_replicas=1", nil)}
	for b.Loop() {
		for i, l := range ledgers {
			began := time.Now()
			if _, err := spend(b, l, "m", 1, crowded); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i, name := range []string{"plain-µs", "waiting-µs"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1000, name)
	}
}
