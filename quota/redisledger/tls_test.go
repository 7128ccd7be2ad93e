package redisledger_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
)

// TestTLSTopologies spends in a cluster of three nodes and with a sentinel. All
// require TLS with a client certificate, also between each other. The client
// must use its certificates for the nodes that it learns of too.
func TestTLSTopologies(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and sentinels, 4 seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, key := issue(t, dir, "ca", nil, nil)
	issue(t, dir, "server", ca, key)
	issue(t, dir, "client", ca, key)
	start := func(port string, more ...string) *redistest.Server {
		return redistest.Start(t, slices.Concat(tlsArgs(file, port), more)...)
	}
	var nodes []*redistest.Server
	var ports []string
	for i := range 3 {
		ports = append(ports, redistest.FreePort(t))
		node := start(ports[i], "--cluster-enabled", "yes", "--tls-cluster", "yes")
		nodes = append(nodes, node)
		node.AddSlots(t, i*redistest.Slots/3, (i+1)*redistest.Slots/3)
		node.Do(t, "cluster", "set-config-epoch", i+1)
		if i > 0 {
			node.Do(t, "cluster", "meet", "127.0.0.1", ports[0])
		}
	}
	for _, node := range nodes {
		redistest.Await(t, "the cluster", func() bool {
			return strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok")
		})
	}
	master, sentinel := redistest.FreePort(t), redistest.FreePort(t)
	start(master, "--tls-replication", "yes")
	redistest.StartSentinel(t, master, 1, tlsArgs(file, sentinel, "--tls-replication", "yes")...)

	mine := "?ca=" + file("ca.pem") + "&cert=" + file("client.pem") + "&key=" + file("client.key")
	for _, url := range []string{"rediss+cluster://127.0.0.1:" + ports[0], "rediss+sentinel://127.0.0.1:" + sentinel + "/" + redistest.Master} {
		l := fresh(t, url+mine, nil)
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} { // of all nodes
			batch := &quota.Batch{Account: name, Requests: []quota.Request{{Method: "m", Units: 100, Charges: []*quota.Charge{day}}}}
			answers, err := l.Spend(t.Context(), batch)
			if err != nil || answers[0].Err != nil {
				t.Fatalf("%s: %s: %v, %v", url, name, answers, err)
			}
			if s, err := l.Standings(t.Context(), name, "", []*quota.Charge{day}); err != nil || s[0].Used != 100 {
				t.Errorf("%s: %s: %v, %v; want 100 units", url, name, s, err)
			}
		}
		for name, parameters := range map[string]string{
			"no certificate": "?ca=" + file("ca.pem"), "another name": mine + "&server_name=other.example", "the system's CAs": "",
		} {
			if _, err := spend(t, fresh(t, url+parameters, nil), "m", 1, day); !errors.Is(err, quota.ErrLedgerConfig) {
				t.Errorf("%s, %s: %v; want ErrLedgerConfig", url, name, err)
			}
		}
	}
}

// tlsArgs returns the arguments with which a server serves TLS on a port too.
func tlsArgs(file func(string) string, port string, more ...string) []string {
	return append([]string{"--tls-port", port, "--tls-ca-cert-file", file("ca.pem"), "--tls-cert-file", file("server.pem"),
		"--tls-key-file", file("server.key")}, more...)
}
