package redisledger_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestShownURLHoldsASecret: a valid URL is shown without its secrets; an
// invalid one is an ErrLedgerConfig without any part of the password.
func TestShownURLHoldsASecret(t *testing.T) {
	for url, want := range map[string]string{
		"redis://host":                                   "redis://host:6379/0",
		"redis://[::1]":                                  "redis://[::1]:6379/0",
		"redis://[::1]:7000/3?protocol=2":                "redis://[::1]:7000/3",
		"redis://:s3cret@host:1/15":                      "redis://host:1/15",
		"redis://me:s3cret@host/":                        "redis://host:6379/0",
		"redis://me:s3cr%40%2f%3aet@host":                "redis://host:6379/0",
		"rediss://:s3cret@host?server_name=a.example":    "rediss://host:6379/0",
		"rediss://host?insecure_skip_verify=true":        "rediss://host:6379/0",
		"unix:///run/redis.sock?db=2":                    "unix:///run/redis.sock",
		"unix://me:s3cret@/run/redis.sock":               "unix:///run/redis.sock",
		"redis+sentinel://a,b:1,[::1]:2/main":            "redis+sentinel://a:26379,b:1,[::1]:2/main/0",
		"redis+sentinel://me:s3cret@a,b/main/4":          "redis+sentinel://a:26379,b:26379/main/4",
		"redis+sentinel://a/main?sentinel_password=cret": "redis+sentinel://a:26379/main/0",
		"redis+cluster://a:1,b:2":                        "redis+cluster://a:1,b:2",
		"rediss+cluster://:s3cret@a,b/0?protocol=3":      "rediss+cluster://a:6379,b:6379",
	} {
		l, err := redisledger.Open(url, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		_ = l.Close()
		shown, secret := redisledger.Redact(url)
		if shown != want || secret != strings.Contains(url, "cr") {
			t.Errorf("%s is shown as %s, secret %v; want %s", url, shown, secret, want)
		}
	}
	for _, url := range []string{
		"", "host", "http://host", "redis:host", "redis://", "redis:///0", "redis://:6379", "redis://host:0", "redis://host:65536", "redis://host:s3cret",
		"redis://a,b", "redis://a b", "redis://a\x1b[2J", "redis://ünï", "redis://a:1:2", "redis://[::1", "redis://host/-1", "redis://host/0/1", "redis://host/%zz", "redis://h%6fst",
		"redis://:s3cret@host/s3cret", "redis://u:s3?cret@host", "redis://u:s3#cret@host", "redis://u:s3/cret@host", "redis://u:s3%cret@host",
		"redis://host?s3cret=1", "redis://host?dial_timeout=5s", "redis://host?protocol=4", "redis://host?protocol=2&protocol=3", "redis://host?protocol=", "redis://host?%zz",
		"redis://host?ca=/etc/ca.pem", "redis://me@host", "unix://", "unix:///", "unix://host/run/redis.sock", "unix:///run/redis.sock?db=x",
		"redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a/main/x", "redis+sentinel:///main", "redis+sentinel://a,,b/main", "redis+sentinel://a/main?sentinel_user=x",
		"redis+cluster://a/1", "redis+cluster://", "redis+nothing://a", "rediss://host?cert=a", "rediss://host?ca=/nothing/here.pem",
		"rediss://host?cert=/nothing/here.pem&key=/nothing/here.pem", "rediss://host?insecure_skip_verify=yes", "rediss://host?insecure_skip_verify=true&ca=x", "rediss://host?ca key=1",
	} {
		l, err := redisledger.Open(url, nil)
		wrong, ok := errors.AsType[*redisledger.AddressError](err)
		if !ok || l != nil || !errors.Is(err, quota.ErrLedgerConfig) || strings.Contains(wrong.Err.Error(), "redisledger") || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v; want ErrLedgerConfig, without the secret", url, err)
		}
		if shown, _ := redisledger.Redact(url); strings.Contains(shown, "cret") {
			t.Errorf("%s is shown as %s", url, shown)
		}
	}
	for url, want := range map[string]string{
		"redis:/foo":         "redisledger: there is no // after redis:; write redis://HOST:PORT/DB",
		"unix:/x":            "redisledger: there is no // after unix:; write unix:///PATH",
		"redis+sentinel:a/m": "redisledger: there is no // after redis+sentinel:; write redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB",
	} {
		if _, err := redisledger.Open(url, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", url, err, want)
		}
	}
}

// TestPasswordInThePlaceOfTheUserIsShown: without a colon, the text before the
// @ is the user, and people put the password there.
func TestPasswordInThePlaceOfTheUserIsShown(t *testing.T) {
	for _, url := range []string{
		"rediss://s3cret@host", "redis://s3cret:@host", "redis://s3cret:x@host/1", "unix://s3cret@/run/redis.sock", "redis+sentinel://s3cret@a,b/main",
		"rediss+cluster://s3cret@a,b", "redis://s3%63ret@host", "redis://%73%33cret@host", "redis+sentinel://a/main?sentinel_user=s3cret&sentinel_password=x",
		"redis+sentinel://a/main?sentinel_p%61ssword=s3cret", "redis+sentinel://a/main?SENTINEL_PASSWORD=s3cret", "redis://host?password=s3cret", "redis://host;password=s3cret",
		"redis://host/0;s3cret", "REDIS://s3cret@host", "redis:s3cret@host", "redis:/s3cret@host", "redis://host#s3cret", "s3cret://host", "s3cret", "redis://s3cret@ho st",
	} {
		shown, _ := redisledger.Redact(url)
		_, err := redisledger.Open(url, nil)
		if text := fmt.Sprint(err, shown); strings.Contains(text, "cret") || strings.Contains(text, "%63") {
			t.Errorf("%s: shown as %s; %v", url, shown, err)
		}
		l, err := redisledger.Open(url, &redisledger.Options{Password: "an0ther"})
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		_, err = l.Spend(ctx, &quota.Batch{Account: "a", Requests: []quota.Request{{Method: "m", Units: 1}}})
		cancel()
		if err == nil || strings.Contains(err.Error(), "cret") || strings.Contains(err.Error(), "an0ther") {
			t.Errorf("%s: %v", url, err)
		}
		l.Close()
	}
}

func FuzzURL(f *testing.F) {
	for _, url := range []string{"redis://u:Pa55word@host:1/0", "redis+sentinel://u:Pa55word@a,b:1/main/0?sentinel_password=Pa55word", "rediss://:Pa55word@[::1]?ca=x"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		l, err := redisledger.Open(url, nil)
		if err == nil {
			_ = l.Close()
		}
		shown, secret := redisledger.Redact(url)
		if strings.Count(url, "Pa55word") == 1 && secret && strings.Contains(shown, "Pa55word") || err != nil && strings.Contains(err.Error(), "Pa55word") &&
			!strings.Contains(url, "=") { // a file's name is shown
			t.Errorf("%q: %v, shown as %q", url, err, shown)
		}
	})
}

// issue makes a certificate for 127.0.0.1 and its key, in PEM files. Without an
// issuer the certificate is self-signed.
func issue(t *testing.T, dir, name string, by *x509.Certificate, with *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: by == nil, DNSNames: []string{"redis.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
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
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}

// TestEveryKindOfConnectionSpends spends over each kind of connection to one
// server: plain, a socket, TLS with a client certificate, RESP2 and 3, and an
// ACL user. A wrong certificate is a configuration error, not a server that is
// down.
func TestEveryKindOfConnectionSpends(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	ca, key := issue(t, dir, "ca", nil, nil)
	issue(t, dir, "server", ca, key)
	issue(t, dir, "client", ca, key)
	issue(t, dir, "other", nil, nil)
	tlsPort := redistest.FreePort(t)
	server := redistest.Start(t, "--unixsocket", file("redis.sock"), "--tls-port", tlsPort, "--tls-ca-cert-file", file("ca.pem"),
		"--tls-cert-file", file("server.pem"), "--tls-key-file", file("server.key"))
	client := raw(t, server)
	do(t, client, "acl", "setuser", "me", "on", ">s3cret", "~*", "+@all")
	with := "?ca=" + file("ca.pem")
	mine := with + "&cert=" + file("client.pem") + "&key=" + file("client.key")
	for _, c := range []struct {
		name, url string
		options   redisledger.Options
		want      error
	}{
		{name: "plain", url: server.URL()},
		{name: "RESP2", url: server.URL() + "?protocol=2"},
		{name: "socket", url: "unix://" + file("redis.sock") + "?db=1"},
		{name: "ACL user", url: "redis://me:s3cret@" + server.Addr},
		{name: "password apart", url: "redis://me@" + server.Addr, options: redisledger.Options{Password: "s3cret"}},
		{name: "user apart", url: server.URL(), options: redisledger.Options{Username: "me", Password: "s3cret"}},
		{name: "wrong password apart", url: "redis://me:s3cret@" + server.Addr, options: redisledger.Options{Password: "not-s3cret"}, want: quota.ErrLedgerConfig},
		{name: "TLS", url: "rediss://127.0.0.1:" + tlsPort + mine},
		{name: "TLS, RESP2", url: "rediss://127.0.0.1:" + tlsPort + "/2" + mine + "&protocol=2"},
		{name: "TLS, a given name", url: "rediss://127.0.0.1:" + tlsPort + mine + "&server_name=redis.example"},
		{name: "TLS, any server", url: "rediss://127.0.0.1:" + tlsPort + strings.Replace(mine, "ca="+file("ca.pem"), "insecure_skip_verify=true", 1)},
		{name: "another name", url: "rediss://127.0.0.1:" + tlsPort + mine + "&server_name=other.example", want: quota.ErrLedgerConfig},
		{name: "another CA", url: "rediss://127.0.0.1:" + tlsPort + strings.Replace(mine, "ca.pem", "other.pem", 1), want: quota.ErrLedgerConfig},
		{name: "the system's CAs", url: "rediss://127.0.0.1:" + tlsPort, want: quota.ErrLedgerConfig},
		{name: "no client certificate", url: "rediss://127.0.0.1:" + tlsPort + with, want: quota.ErrLedgerConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Prefix = strings.ReplaceAll(c.name, " ", "-")
			l, err := redisledger.Open(c.url, &c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, err = spend(t, l, "m", 100, day)
			if !errors.Is(err, c.want) || errors.Is(err, quota.ErrLedgerDown) {
				t.Fatalf("%v; want %v", err, c.want)
			}
			if err == nil && used(t, l, day) != 100 {
				t.Errorf("%d units", used(t, l, day))
			}
		})
	}
}
