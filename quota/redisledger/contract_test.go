package redisledger_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		os.Exit(child(url))
	}
	if url := os.Getenv(playURL); url != "" {
		os.Exit(play(url))
	}
	os.Exit(m.Run())
}

// prefixes numbers the ledgers of one server.
var prefixes atomic.Int64

// fresh opens an empty ledger.
func fresh(t testing.TB, url string, now func() time.Time) *redisledger.Ledger {
	t.Helper()
	open := redisledger.Open
	if now != nil { // nothing depends on real time
		open = redisledger.OpenPatient
	}
	l, err := open(url, &redisledger.Options{Now: now, Prefix: fmt.Sprintf("t%d", prefixes.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// raw returns a plain client of the ledger's server.
func raw(t testing.TB, server *redistest.Server) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func do(t testing.TB, c redis.UniversalClient, args ...any) any {
	t.Helper()
	value, err := c.Do(context.WithoutCancel(t.Context()), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args[0], err)
	}
	return value
}

func TestContract(t *testing.T) {
	server := redistest.Start(t)
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger { return fresh(t, server.URL(), now) })
}

// TestContractInACluster runs on a cluster of one node, which refuses keys that
// do not share a hash slot, through a client with its default retries.
func TestContractInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the contract a second time, 10 seconds")
	}
	server := redistest.Start(t, "--cluster-enabled", "yes")
	node := raw(t, server)
	slots := []any{"cluster", "addslots"}
	for slot := range 16384 {
		slots = append(slots, slot)
	}
	do(t, node, slots...)
	for do(t, node, "cluster", "info").(string)[:16] != "cluster_state:ok" {
		<-time.After(10 * time.Millisecond)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr}})
	t.Cleanup(func() { _ = client.Close() })
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
		return redisledger.New(client, &redisledger.Options{Now: now, Prefix: fmt.Sprintf("t%d", prefixes.Add(1))})
	})
}

// TestServersClockIsRealTime: on it a Guard may cache refusals.
func TestServersClockIsRealTime(t *testing.T) {
	for real, now := range map[bool]func() time.Time{true: nil, false: time.Now} {
		if l := fresh(t, "redis://127.0.0.1:1", now); quota.RealTime(l) != real {
			t.Errorf("on a real clock: %t; want %t", !real, real)
		}
	}
}

const account = "my-project"

var day = charge("day", 9500, quota.Sliding(24*time.Hour))

func charge(name string, limit quota.Units, window quota.Window, methods ...string) *quota.Charge {
	return &quota.Charge{Budget: name, Coverage: quota.NewCoverage(quota.Coverage{Methods: methods}), Limit: limit, Window: window}
}

func spend(t testing.TB, l quota.Ledger, method string, units quota.Units, charges ...*quota.Charge) (quota.Receipt, error) {
	t.Helper()
	answers, err := l.Spend(context.Background(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: method, Units: units, Charges: charges}}})
	if err != nil {
		return quota.Receipt{}, err
	}
	return answers[0].Receipt, answers[0].Err
}

func mustSpend(t testing.TB, l quota.Ledger, method string, units quota.Units, charges ...*quota.Charge) quota.Receipt {
	t.Helper()
	receipt, err := spend(t, l, method, units, charges...)
	if err != nil {
		t.Fatalf("spend %d: %v", units, err)
	}
	return receipt
}

func used(t testing.TB, l quota.Ledger, c *quota.Charge) quota.Units {
	t.Helper()
	s, err := l.Standings(context.Background(), account, "", []*quota.Charge{c})
	if err != nil {
		t.Fatalf("standings: %v", err)
	}
	return s[0].Used
}

func entries(t testing.TB, l quota.Ledger) (all []quota.Entry) {
	t.Helper()
	for e, err := range l.Entries(context.Background(), quota.Query{Account: account}) {
		if err != nil {
			t.Fatalf("entries: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// contents returns all keys of a server and their values.
func contents(t *testing.T, client *redis.Client) (all string) {
	t.Helper()
	keys := do(t, client, "keys", "*").([]any)
	slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	for _, key := range keys {
		if do(t, client, "type", key) == "hash" { // whose dump is in any order
			all += fmt.Sprintf("%q %q\n", key, do(t, client, "hgetall", key))
			continue
		}
		all += fmt.Sprintf("%q %q\n", key, do(t, client, "dump", key))
	}
	return all
}
