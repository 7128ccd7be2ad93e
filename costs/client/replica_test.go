package client_test

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
)

// TestAnOutageLastsWhileItsServerIsAReplica: a server that became a replica
// answers questions and refuses calls. Each process says so, also those that
// find calls of the outage to restore, and that it lasts since the first found
// it. It ends when these are restored.
func TestAnOutageLastsWhileItsServerIsAReplica(t *testing.T) {
	if testing.Short() {
		t.Skip("makes its server a replica and a master again, 3 seconds")
	}
	server := servers.StartRedis(t)
	s := newStand(t, "ledger: "+server.URL()+"\n")
	s.options.Report = func(quota.Call, error) {}
	if err := get(s.open(), "get"); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "replicaof", server.Host(), "1")
	first := s.open()
	if err := get(first, "get"); err != nil {
		t.Fatal(err)
	}
	since := first.Outage().Since
	looks, calls := s.open(), s.open()
	if _, err := looks.Guard().Balances(t.Context()); err == nil {
		t.Error("balances without the call of the outage")
	}
	if err := get(calls, "get"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client.Client{looks, calls} {
		if o := c.Outage(); o == nil || !o.Down || !o.Since.Equal(since) || !strings.Contains(o.Reason, "READONLY") ||
			!strings.Contains(o.Reason, "name the master") {
			t.Errorf("%+v; want that it is a replica since %v", o, since)
		}
	}
	server.Do(t, "replicaof", "no", "one")
	last := s.open()
	if _, err := last.Guard().Balances(t.Context()); err != nil || last.Outage() != nil && last.Outage().Down {
		t.Errorf("%v, %+v; want that it is back", err, last.Outage())
	}
}
