package redisledger

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
)

// writer appends to an account until it is stopped, and notes the answers.
type writer struct {
	*log
	appended map[int]bool
	count    atomic.Int64
	doubts   int
	down     int
	last     error
}

// crowd is writers with a ledger each.
type crowd struct {
	writers []*writer
	stop    context.CancelFunc
	all     sync.WaitGroup
}

// startCrowd starts writers, each to all accounts.
func startCrowd(t *testing.T, url string, writers int) *crowd {
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{stop: cancel}
	for i := range writers {
		w := &writer{log: newLog(t, impatient(t, url, nil), fmt.Sprint("account", i)), appended: map[int]bool{}}
		c.writers = append(c.writers, w)
		c.all.Go(func() {
			for ctx.Err() == nil {
				if w.write() {
					w.count.Add(1)
				}
			}
		})
	}
	t.Cleanup(c.end)
	return c
}

func (c *crowd) end() {
	c.stop()
	c.all.Wait()
}

// await waits until each writer has appended 50 batches more.
func (c *crowd) await(t *testing.T) {
	t.Helper()
	for _, w := range c.writers {
		want := w.count.Load() + 50
		servers.Await(t, "appends", func() bool { return w.count.Load() >= want })
	}
}

// write appends once. After a doubt, or when the log has lost its tail, it
// reads the log.
func (w *writer) write() bool {
	a := w.next()
	tail, err := w.Append(context.Background(), w.account, a)
	switch {
	case errors.Is(err, engine.ErrInDoubt):
		w.doubts++
	case errors.Is(err, engine.ErrLedgerDown):
		w.down++
	case err != nil:
		w.last = err
	case tail.Appended:
		w.appended[w.number] = true
		w.known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: tagOf(a.Data)}
		return true
	case tail.Diverged:
		w.known = engine.Known{}
	case len(tail.Batches) > 0:
		w.known = following(tail).Known
	}
	return false
}

// finish ends the crowd, and requires that no batch is there twice, and none
// that was not appended or in doubt. It returns how many were lost.
func (c *crowd) finish(t *testing.T) (lost int) {
	t.Helper()
	c.end()
	appended, doubts, down := 0, 0, 0
	for _, w := range c.writers {
		got := w.all()
		there := map[int]bool{}
		unknown := 0
		for _, number := range got {
			if there[number] {
				t.Errorf("%s: batch %d is there twice", w.account, number)
			}
			if there[number] = true; !w.appended[number] {
				unknown++
			}
		}
		for number := range w.appended {
			if !there[number] {
				lost++
			}
		}
		if unknown > w.doubts {
			t.Errorf("%s: %d batches that were not appended, %d in doubt", w.account, unknown, w.doubts)
		}
		if w.last != nil {
			t.Errorf("%s: %v", w.account, w.last)
		}
		appended, doubts, down = appended+len(w.appended), doubts+w.doubts, down+w.down
	}
	t.Logf("%d appended, %d of them lost, %d in doubt, %d down", appended, lost, doubts, down)
	return lost
}

// TestClusterAppendsGoOnWhileItChanges: accounts of all shards are listed.
// Appends go on while slots move and when a master dies.
func TestClusterAppendsGoOnWhileItChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six servers and waits for a failover, 10 seconds")
	}
	t.Parallel()
	group := servers.StartRedisCluster(t)
	crowd := startCrowd(t, "redis+cluster://"+group.Addrs(), 6)
	crowd.await(t)
	key := "ration:{account0}:head"
	from, slot := group.Owner(t, key)
	to := group.Nodes[0]
	if to == from {
		to = group.Nodes[1]
	}
	to.Do(t, "cluster", "setslot", slot, "importing", from.Do(t, "cluster", "myid"))
	from.Do(t, "cluster", "setslot", slot, "migrating", to.Do(t, "cluster", "myid"))
	crowd.await(t)
	for _, key := range []string{key, "ration:{account0}:batches"} {
		from.Do(t, "migrate", to.Host(), to.Port(), key, 0, 1000)
	}
	crowd.await(t) // all keys are there, and the slot is not
	for _, node := range []*servers.Redis{to, from} {
		node.Do(t, "cluster", "setslot", slot, "node", to.Do(t, "cluster", "myid"))
	}
	crowd.await(t)
	var accounts []string
	for name, err := range crowd.writers[0].Accounts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		accounts = append(accounts, name)
	}
	if len(accounts) != 6 {
		t.Errorf("%q; want 6 accounts", accounts)
	}
	if owner, _ := group.Owner(t, key); owner != to {
		t.Fatalf("the slot has not moved")
	}
	to.Stop()
	servers.Await(t, "a failover", func() bool {
		tail, err := crowd.writers[0].Read(t.Context(), "account0", &engine.Read{Bytes: 1})
		return err == nil && tail.Position > 0
	})
	crowd.await(t)
	crowd.finish(t)
}

// TestSentinelsMayHangOrBeGone: appends go on when the master dies while a
// sentinel hangs, and when all sentinels are gone.
func TestSentinelsMayHangOrBeGone(t *testing.T) {
	if testing.Short() {
		t.Skip("starts six servers and waits for a failover, 10 seconds")
	}
	t.Parallel()
	group := servers.StartSentinels(t)
	url := "redis+sentinel://" + group.Addrs() + "/" + servers.Master
	l := newLog(t, impatient(t, url+"-not", nil), "a")
	if _, err := l.Append(t.Context(), "a", l.next()); !errors.Is(err, engine.ErrLedgerConfig) ||
		!strings.Contains(err.Error(), "no master of this name") {
		t.Errorf("%v; want ErrLedgerConfig that says so", err)
	}
	crowd := startCrowd(t, url, 4)
	crowd.await(t)
	group.Sentinels[2].Hang(t)
	defer group.Sentinels[2].GoOn(t)
	old := group.Present(t)
	old.Stop()
	servers.Await(t, "a failover", func() bool {
		now := group.Present(t)
		return now != nil && now != old && strings.Contains(now.Info(t), "role:master")
	})
	crowd.await(t)
	master := group.Present(t)
	for _, sentinel := range group.Sentinels[:2] {
		sentinel.Stop()
	}
	crowd.await(t)
	master.Do(t, "client", "kill", "type", "normal", "skipme", "yes")
	crowd.await(t)
	crowd.finish(t)
}

// issue makes a certificate for 127.0.0.1 and its key, in PEM files. Without an
// issuer the certificate is self-signed.
func issue(t *testing.T, dir, name string, by *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate,
	*ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		IsCA:     by == nil,
		DNSNames: []string{"redis.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if by == nil {
		by, with = certificate, key
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, by, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// TestEachKindOfConnectionAppends appends over each kind of connection to one
// server. A wrong certificate is a configuration error, not a server that is
// down.
func TestEachKindOfConnectionAppends(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server, a Sentinel and a cluster with TLS, 2 seconds")
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, key := issue(t, dir, "ca", nil, nil)
	issue(t, dir, "server", ca, key)
	issue(t, dir, "client", ca, key)
	issue(t, dir, "other", nil, nil)
	port := servers.FreePort(t)
	args := func(port string, more ...string) []string {
		return slices.Concat([]string{"--tls-port", port, "--tls-ca-cert-file", file("ca.pem"), "--tls-cert-file",
			file("server.pem"),
			"--tls-key-file", file("server.key")}, more)
	}
	server := servers.StartRedis(t, args(port, "--unixsocket", file("redis.sock"))...)
	server.Do(t, "acl", "setuser", "me", "on", ">s3cret", "~ration:*", "-@all", "+evalsha", "+eval", "+hello",
		"+select",
		"+time", "+hmget", "+llen", "+hset", "+rpush", "+lrange", "+lindex", "+ltrim", "+del", "+exists", "+scan")
	sentinelPort, nodePort := servers.FreePort(t), servers.FreePort(t)
	servers.StartSentinel(t, port, 1, args(sentinelPort, "--tls-replication", "yes")...)
	node := servers.StartRedis(t, args(nodePort, "--cluster-enabled", "yes", "--tls-cluster", "yes",
		"--cluster-announce-ip", "127.0.0.1")...)
	node.AddSlots(t, 0, servers.Slots)
	servers.Await(t, "the cluster", func() bool {
		return strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	plain, secure, with := server.URL(), "rediss://127.0.0.1:"+port, "?ca="+file("ca.pem")
	mine := with + "&cert=" + file("client.pem") + "&key=" + file("client.key")
	wrong := engine.ErrLedgerConfig
	for _, c := range []struct {
		name, url string
		options   Options
		want      error
	}{
		{name: "plain", url: plain},
		{name: "RESP2", url: plain + "?protocol=2"},
		{name: "socket", url: "unix://" + file("redis.sock") + "?db=1"},
		{name: "ACL user", url: "redis://me:s3cret@" + server.Addr},
		{name: "password apart", url: "redis://me@" + server.Addr, options: Options{Password: "s3cret"}},
		{name: "user apart", url: plain, options: Options{Username: "me", Password: "s3cret"}},
		{name: "wrong password apart", url: "redis://me:s3cret@" + server.Addr,
			options: Options{Password: "not-s3cret"}, want: wrong},
		{name: "TLS", url: secure + mine},
		{name: "TLS, RESP2", url: secure + "/2" + mine + "&protocol=2"},
		{name: "TLS, a given name", url: secure + mine + "&server_name=redis.example"},
		{name: "TLS, any server", url: secure + strings.Replace(mine, "ca="+file("ca.pem"), "insecure_skip_verify=true",
			1)},
		{name: "TLS, sentinel", url: "rediss+sentinel://127.0.0.1:" + sentinelPort + "/" + servers.Master + mine},
		{name: "TLS, cluster", url: "rediss+cluster://127.0.0.1:" + nodePort + mine},
		{name: "another name", url: secure + mine + "&server_name=other.example", want: wrong},
		{name: "another CA", url: secure + strings.Replace(mine, "ca.pem", "other.pem", 1), want: wrong},
		{name: "the system's CAs", url: secure, want: wrong},
		{name: "no client certificate", url: secure + with, want: wrong},
		{name: "sentinel without a certificate", url: "rediss+sentinel://127.0.0.1:" + sentinelPort + "/" +
			servers.Master + with, want: wrong},
	} {
		t.Run(c.name, func(t *testing.T) { connects(t, c.name, c.url, c.options, c.want) })
	}
}

// connects appends and reads by a URL, or wants an error.
func connects(t *testing.T, name, url string, o Options, want error) {
	l := newLog(t, impatient(t, url, &o), name)
	tail, err := l.Append(t.Context(), name, l.next())
	showsSecret := err != nil && strings.Contains(err.Error(), "s3cret")
	if !errors.Is(err, want) || errors.Is(err, engine.ErrLedgerDown) || showsSecret {
		t.Fatalf("%v; want %v", err, want)
	}
	if want != nil {
		return
	}
	l.known = engine.Known{Epoch: 7, After: tail.Position, Tag: tagOf(batch(1, 45))}
	a := l.next()
	a.Trim = 1
	if l.append(a); binary.BigEndian.Uint32(l.read(0).Batches[0].Data[6:]) != 2 {
		t.Error("the log is not what was appended")
	}
	for name, err := range l.Accounts(t.Context()) {
		if err != nil {
			t.Errorf("%q, %v", name, err)
		}
	}
}
