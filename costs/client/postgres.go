package client

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/postgresledger"
)

func isPostgres(scheme string) bool { return scheme == "postgres" || scheme == "postgresql" }

// checkPostgres returns an error for an address that cannot name a database. A
// password in it is one, because any user of the host can read a command line.
func checkPostgres(address string) error {
	u, err := url.Parse(address)
	if err != nil { // its text has the address
		return badAddress("ledger postgres: not a URL; write postgres://USER@HOST:PORT/DATABASE")
	}
	query := u.Query()
	_, hasPassword := u.User.Password()
	if hasPassword || query.Has("password") || query.Has("sslpassword") {
		return badAddress("ledger %s: a password does not belong in the address; "+
			"put it in ~/.pgpass, PGPASSWORD or the file that PGPASSFILE names", postgresName(address))
	}
	query.Del("schema")
	u.RawQuery = query.Encode()
	if _, err := pgxpool.ParseConfig(u.String()); err != nil {
		return badAddress("ledger %s: a parameter of the address is malformed: %w; "+
			"write postgres://USER@HOST:PORT/DATABASE", postgresName(address), cmp.Or(errors.Unwrap(err), err))
	}
	return nil
}

// openPostgres opens a ledger in PostgreSQL.
func (o *Options) openPostgres(address string) (quota.Ledger, error) {
	if secret := o.Getenv("PGPASSWORD"); o.Conceal != nil && secret != "" {
		o.Conceal(secret)
	}
	return opened(postgresledger.Open(address, &postgresledger.Options{Now: o.Now}))
}

// postgresName returns an address without secrets: what says which database and
// schema it is, in one spelling.
func postgresName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "postgres:"
	}
	name := url.URL{Scheme: "postgres", Host: postgresHosts(u.Host), Path: u.Path}
	if u.User.Username() != "" {
		name.User = url.User(u.User.Username())
	}
	kept := url.Values{}
	for _, parameter := range []string{"host", "port", "dbname", "user", "schema"} {
		if value := u.Query().Get(parameter); value != "" {
			kept.Set(parameter, value)
		}
	}
	if kept.Get("schema") == "ration" {
		kept.Del("schema")
	}
	name.RawQuery = kept.Encode()
	return name.String()
}

// postgresHosts returns hosts in lower case and sorted, with 127.0.0.1 for
// localhost and without the usual port.
func postgresHosts(authority string) string {
	hosts := strings.Split(strings.ToLower(authority), ",")
	for i, host := range hosts {
		host = strings.TrimSuffix(host, ":5432")
		if name, port, _ := strings.Cut(host, ":"); name == "localhost" {
			host = strings.TrimSuffix("127.0.0.1:"+port, ":")
		}
		hosts[i] = host
	}
	slices.Sort(hosts)
	return strings.Join(hosts, ",")
}
