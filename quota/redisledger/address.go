package redisledger

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
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
	kind topology
	redis.UniversalOptions

	secure                           bool // TLS
	ca, certificate, key, serverName string
	trustAny                         bool
}

// schemes are the URL schemes with the form of what follows, and the query
// parameters that they allow. All but unix have a form with TLS.
var schemes = map[string]struct {
	kind             topology
	form, parameters string
}{
	"redis":          {single, "HOST:PORT/DB", "protocol"},
	"redis+sentinel": {sentinels, "HOST:PORT,HOST:PORT/MASTER/DB", "protocol sentinel_user sentinel_password"},
	"redis+cluster":  {cluster, "HOST:PORT,HOST:PORT", "protocol"},
	"unix":           {socket, "/PATH", "protocol db"},
}

// tlsParameters are the query parameters that the schemes with TLS allow too.
const tlsParameters = " ca cert key server_name insecure_skip_verify"

// Schemes returns the schemes of the URLs that Open takes, sorted.
func Schemes() []string {
	return []string{"redis", "redis+cluster", "redis+sentinel", "rediss", "rediss+cluster", "rediss+sentinel", "unix"}
}

// CheckURL returns the *AddressError with which Open would refuse a URL for its
// form. It reads no files, such as those of certificates.
func CheckURL(url string) error {
	_, err := parse(url)
	return err
}

// AddressError is returned by Open for a URL that it cannot use. It matches
// quota.ErrLedgerConfig.
type AddressError struct{ Err error }

// Error says what is wrong, and what to write. It includes no part of the URL
// that may belong to a password.
func (e *AddressError) Error() string { return "redisledger: " + e.Err.Error() }

// Unwrap returns quota.ErrLedgerConfig and Err.
func (e *AddressError) Unwrap() []error { return []error{engine.ErrLedgerConfig, e.Err} }

// badURL returns an *AddressError. Its arguments must not contain any part of
// the URL that may belong to a password.
func badURL(format string, args ...any) error { return &AddressError{fmt.Errorf(format, args...)} }

// parse parses a URL strictly, without reading files. net/url rejects
// several hosts.
func parse(text string) (*address, error) {
	scheme, _, _ := strings.Cut(text, ":")
	rest, secure := strings.CutPrefix(scheme, "rediss")
	known, ok := schemes[scheme]
	if secure {
		known, ok = schemes["redis"+rest]
		known.parameters += tlsParameters
	}
	if !ok {
		return nil,
			badURL("the scheme of the URL is unknown; write redis://host:6379/0, rediss:// for TLS, unix:///PATH, " +
				"redis+sentinel:// or redis+cluster://")
	}
	a := &address{kind: known.kind, secure: secure}
	if err := a.parse(strings.TrimPrefix(text, scheme), strings.Fields(known.parameters)); err != nil {
		return nil, badURL("the %s URL has %w; write %[1]s://%[3]s", scheme, err, known.form)
	}
	return a, nil
}

// parse parses what follows the scheme.
func (a *address) parse(text string, allowed []string) error {
	rest, found := strings.CutPrefix(text, "://")
	if !found {
		return errors.New("no // after its scheme")
	}
	authority, tail := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, tail = rest[:end], rest[end:]
	}
	if strings.ContainsAny(tail, "@#") {
		return errors.New("an @ or # behind its host: percent-encode the special characters of a password")
	}
	at := strings.LastIndexByte(authority, '@') + 1
	path, query, _ := strings.Cut(tail, "?")
	user, password, _ := strings.Cut(strings.TrimSuffix(authority[:at], "@"), ":")
	for _, part := range []*string{&user, &password, &path} {
		decoded, err := url.PathUnescape(*part)
		if err != nil {
			return errors.New("a malformed percent-encoding")
		}
		*part = decoded
	}
	a.Username, a.Password = user, password
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("malformed parameters")
	}
	return cmp.Or(a.parseHosts(authority[at:]), a.parsePath(path), a.parseParameters(values, allowed))
}

const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:"

func (a *address) parseHosts(authority string) error {
	port := "6379"
	switch {
	case a.kind == socket && authority != "":
		return errors.New("a host before the path of its socket")
	case a.kind == socket:
		return nil
	case a.kind == sentinels:
		port = "26379"
	case a.kind == single && strings.Contains(authority, ","):
		return errors.New("several hosts, which need a scheme with +cluster or +sentinel")
	}
	for host := range strings.SplitSeq(authority, ",") {
		name, given, err := net.SplitHostPort(host)
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			name, given, err = net.SplitHostPort(host + ":" + port)
		}
		if err != nil || name == "" || strings.Trim(name, hostLetters) != "" {
			return errors.New("an empty or malformed host")
		}
		if number, err := strconv.ParseUint(given, 10, 16); err != nil || number == 0 {
			return errors.New("a port that is not a number from 1 to 65535")
		}
		a.Addrs = append(a.Addrs, net.JoinHostPort(name, given))
	}
	return nil
}

func (a *address) parsePath(path string) error {
	db := strings.TrimPrefix(path, "/")
	switch a.kind {
	case socket:
		if len(path) < 2 {
			return errors.New("no path of a socket")
		}
		a.Addrs, db = []string{path}, ""
	case sentinels:
		if a.MasterName, db, _ = strings.Cut(db, "/"); a.MasterName == "" {
			return errors.New("no name of a master")
		}
	case cluster:
		if db != "" && db != "0" {
			return errors.New("a database, and a cluster has number 0 only")
		}
	}
	return a.parseDB(db)
}

func (a *address) parseDB(text string) error {
	db, err := strconv.ParseUint("0"+text, 10, 31)
	if a.DB = int(db); err != nil {
		return errors.New("a database that is not a number")
	}
	return nil
}

func (a *address) parseParameters(values url.Values, allowed []string) error {
	for name, given := range values {
		if !slices.Contains(allowed, name) {
			return fmt.Errorf("an unknown parameter (it may have %s)", strings.Join(allowed, ", "))
		}
		if len(given) > 1 || given[0] == "" {
			return fmt.Errorf("the parameter %s twice, or without a value", name)
		}
	}
	a.SentinelUsername, a.SentinelPassword = values.Get("sentinel_user"), values.Get("sentinel_password")
	a.ca, a.serverName = values.Get("ca"), values.Get("server_name")
	a.certificate, a.key = values.Get("cert"), values.Get("key")
	protocol, trust := values.Get("protocol"), values.Get("insecure_skip_verify")
	a.Protocol, _ = strconv.Atoi(protocol)
	a.trustAny = trust == "true"
	switch {
	case protocol != "" && protocol != "2" && protocol != "3":
		return errors.New("a protocol that is not 2 or 3")
	case trust != "" && trust != "true" && trust != "false":
		return errors.New("an insecure_skip_verify that is neither true nor false")
	case a.trustAny && a.ca != "":
		return errors.New("a CA that insecure_skip_verify=true would ignore")
	case (a.certificate == "") != (a.key == ""):
		return errors.New("one of cert and key without the other")
	case a.kind == socket:
		return a.parseDB(values.Get("db"))
	}
	return nil
}

// setCredentials sets the credentials that o has.
func (a *address) setCredentials(o *Options) error {
	if o != nil {
		a.Username, a.Password = cmp.Or(o.Username, a.Username), cmp.Or(o.Password, a.Password)
		a.SentinelPassword = cmp.Or(o.SentinelPassword, a.SentinelPassword)
	}
	// go-redis would ignore a user without a password and be the default user.
	lacksPassword := a.Username != "" && a.Password == ""
	lacksSentinels := a.SentinelUsername != "" && a.SentinelPassword == ""
	if lacksPassword || lacksSentinels {
		return badURL("a user without a password; give its password too")
	}
	return nil
}

// maxPEM is the most bytes of a file of certificates.
const maxPEM = 16 << 20

// tlsConfig reads the files that the URL names. It returns nil without TLS.
func (a *address) tlsConfig() (*tls.Config, error) {
	if !a.secure {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName, InsecureSkipVerify: a.trustAny}
	if a.ca != "" {
		text, err := files.ReadLinked(a.ca, maxPEM)
		if err != nil {
			return nil, badURL("the CA's file: %w; name a file of PEM certificates", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, badURL("%s holds no certificate; name a file of PEM certificates", a.ca)
		}
	}
	if a.certificate == "" {
		return config, nil
	}
	certificate, err := files.ReadLinked(a.certificate, maxPEM)
	if err == nil {
		var key []byte
		if key, err = files.ReadSecret(a.key); err == nil {
			config.Certificates = make([]tls.Certificate, 1)
			config.Certificates[0], err = tls.X509KeyPair(certificate, key)
		}
	}
	if err != nil {
		return nil, badURL("the client certificate: %w; name PEM files of a certificate and of its key", err)
	}
	return config, nil
}

// String returns the servers' name for messages, without credentials.
func (a *address) String() string {
	hosts := human.Printable(strings.Join(a.Addrs, ","))
	switch a.kind {
	case sentinels:
		return fmt.Sprintf("%q of the sentinels %s", a.MasterName, hosts)
	case cluster:
		return "the cluster " + hosts
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
	shown = scheme + "://" + human.Printable(strings.Join(a.Addrs, ","))
	switch a.kind {
	case sentinels:
		shown += fmt.Sprintf("/%s/%d", human.Printable(a.MasterName), a.DB)
	case single:
		shown += fmt.Sprintf("/%d", a.DB)
	}
	return shown, a.Password != "" || a.SentinelPassword != ""
}
