package redisledger

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// topology is the kind of servers that a URL names.
type topology uint8

const (
	single topology = iota
	socket
	sentinels
	cluster
)

// address is a parsed URL.
type address struct {
	kind                           topology
	hosts                          []string // host:port each, or a socket's path
	master                         string   // the name that sentinels know it by
	db                             int
	user, password                 string
	sentinelUser, sentinelPassword string
	protocol                       int // 0 is 3
	replicas                       int // how many must have a grant before it is answered

	secure                           bool // TLS
	ca, certificate, key, serverName string
	trustAny                         bool
}

// schemes are the URL schemes with the form of what follows, and the query
// parameters that they allow.
var schemes = map[string]struct {
	kind       topology
	secure     bool
	form       string
	parameters string
}{
	"redis":           {single, false, "HOST:PORT/DB", "protocol wait_replicas"},
	"rediss":          {single, true, "HOST:PORT/DB", "protocol wait_replicas " + tlsParameters},
	"unix":            {socket, false, "/PATH", "protocol wait_replicas db"},
	"redis+sentinel":  {sentinels, false, "HOST:PORT,HOST:PORT/MASTER/DB", "protocol wait_replicas sentinel_user sentinel_password"},
	"rediss+sentinel": {sentinels, true, "HOST:PORT,HOST:PORT/MASTER/DB", "protocol wait_replicas sentinel_user sentinel_password " + tlsParameters},
	"redis+cluster":   {cluster, false, "HOST:PORT,HOST:PORT", "protocol wait_replicas"},
	"rediss+cluster":  {cluster, true, "HOST:PORT,HOST:PORT", "protocol wait_replicas " + tlsParameters},
}

// Schemes returns the schemes of the URLs that Open takes, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(schemes)) }

// CheckURL returns the *AddressError with which Open would refuse a URL for its
// form. It reads no files, such as those of certificates.
func CheckURL(url string) error {
	_, err := parse(url)
	return err
}

const tlsParameters = "ca cert key server_name insecure_skip_verify"

// AddressError is returned by Open for a URL that it cannot use. It matches
// quota.ErrLedgerConfig.
type AddressError struct{ Err error }

// Error says what is wrong, and what to write. It includes no part of the URL
// that may belong to a password.
func (e *AddressError) Error() string { return "redisledger: " + e.Err.Error() }

// Unwrap returns quota.ErrLedgerConfig and Err.
func (e *AddressError) Unwrap() []error { return []error{quota.ErrLedgerConfig, e.Err} }

// badURL returns an *AddressError. Its arguments must not contain any part of
// the URL that may belong to a password.
func badURL(format string, args ...any) error {
	return &AddressError{fmt.Errorf(format, args...)}
}

const example = "write redis://host:6379/0, special characters of a password percent-encoded"

// parse parses a URL strictly, without reading files. net/url rejects
// several hosts.
func parse(text string) (*address, error) {
	scheme, rest, found := strings.Cut(text, "://")
	known, ok := schemes[scheme]
	if name, _, _ := strings.Cut(text, ":"); !found && schemes[name].form != "" {
		return nil, badURL("there is no // after %s:; write %[1]s://%s", name, schemes[name].form)
	}
	if !found || !ok {
		if !found || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz+-") != "" {
			scheme = "?"
		}
		return nil, badURL("the scheme %q is unknown; write redis://host:6379/0, rediss:// for TLS, unix:///PATH, redis+sentinel:// or redis+cluster://", scheme)
	}
	a := &address{kind: known.kind, secure: known.secure}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.ContainsAny(tail, "@#") {
		return nil, badURL("the %s URL has an @ or # behind its host; %s", scheme, example)
	}
	path, query, _ := strings.Cut(tail, "?")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var errs [2]error
		a.user, errs[0] = url.PathUnescape(user)
		a.password, errs[1] = url.PathUnescape(password)
		if errs[0] != nil || errs[1] != nil {
			return nil, badURL("the user or password of the %s URL is badly encoded; %s", scheme, example)
		}
		authority = authority[at+1:]
	}
	for _, step := range []func() error{
		func() error { return a.parseHosts(scheme, authority) },
		func() error { return a.parsePath(scheme, path) },
		func() error { return a.parseQuery(scheme, query, known.parameters) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a, nil
}

const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"

func (a *address) parseHosts(scheme, authority string) error {
	if a.kind == socket {
		if authority != "" {
			return badURL("a unix URL names no host; write unix:///run/redis/redis.sock")
		}
		return nil
	}
	port := "6379"
	if a.kind == sentinels {
		port = "26379"
	}
	for _, host := range strings.Split(authority, ",") {
		name, given := host, port
		if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
			name = host[1 : len(host)-1]
		} else if strings.Contains(host, ":") {
			var err error
			if name, given, err = net.SplitHostPort(host); err != nil {
				return badURL("a host of the %s URL cannot be read; %s", scheme, example)
			}
		}
		number, err := strconv.ParseUint(given, 10, 16)
		if err != nil || number == 0 {
			return badURL("a port of the %s URL is not a number from 1 to 65535; %s", scheme, example)
		}
		if name == "" || strings.Trim(name, hostLetters) != "" {
			return badURL("the %s URL has an empty or malformed host; %s", scheme, example)
		}
		a.hosts = append(a.hosts, net.JoinHostPort(name, given))
	}
	if a.kind == single && len(a.hosts) > 1 {
		return badURL("a %s URL names one host; write %[1]s+cluster:// or %[1]s+sentinel:// for several", scheme)
	}
	return nil
}

func (a *address) parsePath(scheme, path string) error {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return badURL("the path of the %s URL is badly encoded; %s", scheme, example)
	}
	if a.kind == socket {
		if a.hosts = []string{decoded}; len(decoded) < 2 {
			return badURL("the unix URL names no socket; write unix:///run/redis/redis.sock")
		}
		return nil
	}
	db := strings.TrimPrefix(decoded, "/")
	if a.kind == sentinels {
		if a.master, db, _ = strings.Cut(db, "/"); a.master == "" {
			return badURL("the %s URL names no master; write %[1]s://host:26379,host:26379/MASTER/0", scheme)
		}
	}
	if err := a.parseDB(db); err != nil {
		return badURL("the database of the %s URL is not a number; write it after the last /", scheme)
	}
	if a.kind == cluster && a.db != 0 {
		return badURL("a cluster has database 0 only; omit the number")
	}
	return nil
}

func (a *address) parseDB(text string) error {
	if text == "" {
		return nil
	}
	db, err := strconv.ParseUint(text, 10, 31)
	a.db = int(db)
	return err
}

func (a *address) parseQuery(scheme, query, allowed string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return badURL("the parameters of the %s URL cannot be read; write ?name=value&name=value", scheme)
	}
	for name, given := range values {
		if !strings.Contains(" "+allowed+" ", " "+name+" ") || strings.Contains(name, " ") {
			return badURL("the %s URL has an unknown parameter; it may have: %s", scheme, strings.ReplaceAll(allowed, " ", ", "))
		}
		if len(given) > 1 || given[0] == "" {
			return badURL("the %s URL gives %s twice, or without a value; give it once", scheme, name)
		}
	}
	a.sentinelUser, a.sentinelPassword = values.Get("sentinel_user"), values.Get("sentinel_password")
	a.ca = values.Get("ca")
	a.certificate, a.key = values.Get("cert"), values.Get("key")
	a.serverName = values.Get("server_name")
	switch values.Get("protocol") {
	case "", "3":
	case "2":
		a.protocol = 2
	default:
		return badURL("the protocol of the %s URL is unknown; write protocol=2 or protocol=3", scheme)
	}
	if given := values.Get("wait_replicas"); given != "" {
		replicas, err := strconv.ParseUint(given, 10, 8)
		if a.replicas = int(replicas); err != nil {
			return badURL("wait_replicas of the %s URL is not a number of replicas; write wait_replicas=1", scheme)
		}
	}
	switch values.Get("insecure_skip_verify") {
	case "", "false":
	case "true":
		a.trustAny = true
	default:
		return badURL("insecure_skip_verify of the %s URL is neither true nor false; omit it", scheme)
	}
	if a.trustAny && a.ca != "" {
		return badURL("the %s URL names a CA that insecure_skip_verify=true would ignore; omit one of them", scheme)
	}
	if (a.certificate == "") != (a.key == "") {
		return badURL("the %s URL names a client certificate or its key, not both; write cert=FILE&key=FILE", scheme)
	}
	if err := a.parseDB(values.Get("db")); err != nil {
		return badURL("db of the %s URL is not a number; write db=0", scheme)
	}
	return nil
}

// fill sets the credentials that o has.
func (a *address) fill(o *Options) error {
	if o != nil {
		for field, given := range map[*string]string{&a.user: o.Username, &a.password: o.Password, &a.sentinelPassword: o.SentinelPassword} {
			if given != "" {
				*field = given
			}
		}
	}
	// go-redis would ignore a user without a password and be the default user.
	lacksPassword := a.user != "" && a.password == ""
	lacksSentinelPassword := a.sentinelUser != "" && a.sentinelPassword == ""
	if lacksPassword || lacksSentinelPassword {
		return badURL("a user without a password; give its password too")
	}
	return nil
}

// tlsConfig reads the files that the URL names. It returns nil without TLS.
func (a *address) tlsConfig() (*tls.Config, error) {
	if !a.secure {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName, InsecureSkipVerify: a.trustAny}
	if a.ca != "" {
		text, err := privatefile.ReadLinked(a.ca, maxPEM)
		if err != nil {
			return nil, badURL("the CA's file: %w; name a file of PEM certificates", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, badURL("%s holds no certificate; name a file of PEM certificates", a.ca)
		}
	}
	if a.certificate != "" {
		pair, err := a.clientPair()
		if err != nil {
			return nil, badURL("the client certificate: %w; name PEM files of a certificate and of its key", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// maxPEM is the most bytes of a file of certificates.
const maxPEM = 16 << 20

// clientPair reads the client's certificate and its key.
func (a *address) clientPair() (tls.Certificate, error) {
	certificate, err := privatefile.ReadLinked(a.certificate, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := privatefile.ReadSecret(a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// String returns the servers' name for messages, without credentials.
func (a *address) String() string {
	hosts := strings.Join(a.hosts, ",")
	switch a.kind {
	case sentinels:
		return fmt.Sprintf("%q of the sentinels %s", a.master, hosts)
	case cluster:
		return "the cluster " + hosts
	case socket:
		return textfmt.Printable(hosts)
	}
	return hosts
}

// Redact returns url for display, without its user, password and
// parameters, and reports whether it had a password. The user is omitted
// because redis://PASSWORD@host is a common mistake. A malformed url is not
// shown at all.
func Redact(url string) (shown string, secret bool) {
	a, err := parse(url)
	if err != nil {
		return "(unreadable address)", strings.Contains(url, "@") || strings.Contains(url, "password=")
	}
	scheme, _, _ := strings.Cut(url, "://")
	shown = scheme + "://"
	shown += textfmt.Printable(strings.Join(a.hosts, ","))
	switch a.kind {
	case sentinels:
		shown += fmt.Sprintf("/%s/%d", textfmt.Printable(a.master), a.db)
	case single:
		shown += fmt.Sprintf("/%d", a.db)
	}
	return shown, a.password != "" || a.sentinelPassword != ""
}
