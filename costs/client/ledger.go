package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// LedgerName returns the address of the ledger that New would open, without
// secrets. It does not open the ledger. Names of different ledgers differ. The
// name is "" if no ledger is named and there is no state folder.
func LedgerName(table *costs.Table, o *Options) string {
	options := o.withDefaults()
	address, _, err := options.locate(table)
	if err != nil {
		return ""
	}
	return nameOf(address)
}

// oneSpelling returns the name of a Redis server with its hosts in lower case
// and sorted, and with 127.0.0.1 for localhost. The replica takes two names for
// two ledgers, each with an allowance of its own.
func oneSpelling(name string) string {
	scheme, rest, isAddress := strings.Cut(name, "://")
	if !isAddress {
		return name // of one that cannot be read
	}
	authority, _, _ := strings.Cut(rest, "/")
	hosts := strings.Split(strings.ToLower(authority), ",")
	for i, host := range hosts {
		if port, ok := strings.CutPrefix(host, "localhost:"); ok {
			hosts[i] = "127.0.0.1:" + port
		}
	}
	slices.Sort(hosts)
	return scheme + "://" + strings.Join(hosts, ",") + rest[len(authority):]
}

// replicaName is the name by which the replica knows a ledger: that of a file
// has no symbolic links in its folders, as far as they exist.
func replicaName(name string) string {
	path, isFile := strings.CutPrefix(name, "sqlite:")
	if !isFile {
		return name
	}
	below := filepath.Base(path)
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			return "sqlite:" + filepath.Join(real, below)
		}
		if folder == filepath.Dir(folder) {
			return name
		}
		below = filepath.Join(filepath.Base(folder), below)
	}
}

// nameOf returns an address without secrets, and with an absolute path for
// a file.
func nameOf(address string) string {
	switch scheme, rest, _ := strings.Cut(address, ":"); scheme {
	case "sqlite":
		path, _, _ := strings.Cut(rest, "?")
		return "sqlite:" + whole(path)
	case "unix":
		shown, _ := redisledger.Redact(address)
		u, err := url.Parse(address)
		if err != nil {
			return shown
		}
		// a socket's database is a parameter, which Redact hides
		if db, _ := strconv.Atoi(u.Query().Get("db")); db != 0 {
			shown += "?db=" + strconv.Itoa(db)
		}
		return shown
	case "postgres", "postgresql":
		return postgresName(address)
	}
	shown, _ := redisledger.Redact(address)
	return oneSpelling(shown)
}

// locate returns the address of the ledger and the state folder. state is "" if
// there is no state folder and the ledger does not need one.
func (o *Options) locate(table *costs.Table) (address, state string, err error) {
	state, err = o.stateFolder()
	if address = o.address(table); address != "" {
		return address, state, nil
	}
	if err != nil {
		return "", "", err
	}
	return "sqlite:" + filepath.Join(state, "ration.db"), state, nil
}

// address returns the address of the ledger that is named, or "".
func (o *Options) address(table *costs.Table) string {
	return cmp.Or(o.Ledger, o.Getenv("RATION_LEDGER"), table.Ledger())
}

// addressError is a mistake in the address of a ledger.
type addressError struct{ err error }

// Error returns the text of err.
func (e *addressError) Error() string { return e.err.Error() }

// Unwrap returns err.
func (e *addressError) Unwrap() error { return e.err }

func badAddress(format string, args ...any) error {
	return &ConfigError{&addressError{fmt.Errorf(format, args...)}}
}

// addPlace adds to a mistake in the address of a ledger where the address comes
// from, if not from the options: RATION_LEDGER, or the line of table's file.
func (o *Options) addPlace(err error, table *costs.Table) error {
	place := table.LedgerPlace()
	if o.Getenv("RATION_LEDGER") != "" {
		place = "RATION_LEDGER"
	}
	if _, ok := errors.AsType[*addressError](err); !ok || o.Ledger != "" || place == "" {
		return err
	}
	return configError("%s: %w", place, err)
}

// CheckLedger returns a *ConfigError if the address of the ledger that New
// would open is malformed or of an unknown kind. It opens nothing.
func CheckLedger(table *costs.Table, o *Options) error {
	options := o.withDefaults()
	address := options.address(table)
	if address == "" {
		return nil
	}
	return options.addPlace(checkAddress(address), table)
}

// checkAddress returns an error for an address that cannot name a ledger. A
// password in the address is one, because any user of the host can read a
// command line.
func checkAddress(address string) error {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "sqlite":
		_, _, err := parseSQLite(rest)
		return err
	case slices.Contains(redisledger.Schemes(), scheme):
		return checkRedis(address)
	case isPostgres(scheme):
		return checkPostgres(address)
	case scheme == "memory":
		return badAddress("ledger memory: would be forgotten when this process ends; " +
			"name sqlite:FILE, redis://HOST:PORT/DB or postgres://HOST/DATABASE")
	}
	return badAddress("ledger: its address, which is not shown since it may hold a password, is of an unknown kind; %s",
		schemeAdvice(address))
}

func checkRedis(address string) error {
	shown, secret := redisledger.Redact(address)
	if secret {
		variable := passwordVariable
		if strings.Contains(address, "sentinel_password=") {
			variable = sentinelPasswordVariable
		}
		return badAddress("ledger %s: a password does not belong in the address; "+
			"put it in %s, or name a file with %[2]s_FILE", shown, variable)
	}
	if wrong, ok := errors.AsType[*redisledger.AddressError](redisledger.CheckURL(address)); ok {
		return badAddress("ledger %s: %w", shown, wrong.Err)
	}
	return nil
}

// openLedger opens the ledger at address and returns it with its name.
func (o *Options) openLedger(table *costs.Table, address, state string) (name string, l quota.Ledger, err error) {
	if err := checkAddress(address); err != nil {
		return "", nil, err
	}
	switch scheme, rest, _ := strings.Cut(address, ":"); scheme {
	case "sqlite":
		l, err = o.openSQLite(table, rest, state)
	case "postgres", "postgresql":
		l, err = o.openPostgres(address)
	default:
		l, err = o.openRedis(address)
	}
	return nameOf(address), l, err
}

// openSQLite opens a ledger in the file of an address without its scheme.
func (o *Options) openSQLite(table *costs.Table, rest, state string) (quota.Ledger, error) {
	path, sync, err := parseSQLite(rest)
	if err == nil {
		err = o.checkFolder(table, path, state)
	}
	if err != nil {
		return nil, err
	}
	return opened(sqliteledger.Open(path, &sqliteledger.Options{Sync: sync, Now: o.Now, MustExist: o.MustExist}))
}

// opened returns a nil interface with an error.
func opened[L quota.Ledger](l L, err error) (quota.Ledger, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// schemeAdvice returns what to write instead of an address with an
// unknown scheme.
func schemeAdvice(address string) string {
	scheme, _, found := strings.Cut(address, ":")
	if !found && strings.ContainsAny(address, "./") && !strings.ContainsAny(address, "@?;=#&%") {
		return "write sqlite:" + address
	}
	switch meant := strictyaml.Nearest(scheme, append(redisledger.Schemes(), "sqlite", "postgres")); meant {
	case "":
		return "write sqlite:FILE, redis://HOST:PORT/DB or postgres://HOST:PORT/DATABASE"
	case "sqlite":
		return "write sqlite:FILE"
	default:
		return fmt.Sprintf("write %s://…", meant)
	}
}

// parseSQLite returns the file and the durability in the part of an address
// after sqlite:.
func parseSQLite(rest string) (path string, sync sqliteledger.Sync, err error) {
	path, parameters, _ := strings.Cut(rest, "?")
	switch parameters {
	case "", "sync=full":
		sync = sqliteledger.Full
	case "sync=normal":
		sync = sqliteledger.Normal
	default:
		return "", sync, badAddress("ledger sqlite: unknown option; write sync=full or sync=normal")
	}
	switch {
	case strings.Contains(path, "://"), strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"):
		return "", sync, badAddress("ledger sqlite: names another address in place of a file; " +
			"write sqlite:FILE, or the other address alone")
	case strings.HasPrefix(path, "~"):
		return "", sync, badAddress("ledger sqlite:%s begins with ~, which only a shell expands; write the whole path",
			path)
	case path == "":
		return "", sync, badAddress("ledger sqlite: names no file; write sqlite:FILE")
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", sync, &ConfigError{err}
	}
	return path, sync, nil
}

// checkFolder returns an error if the folder of a ledger does not exist. That
// is probably a typo, which would create a second, empty ledger. Only the state
// folder, its parents and the folder of a ledger that this host's replica
// knows, which was deleted, are created.
func (o *Options) checkFolder(table *costs.Table, path, state string) error {
	folder, separator := filepath.Dir(path), string(filepath.Separator)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return nil // opening the ledger reports any other error
	}
	if state != "" {
		if whole, err := filepath.Abs(state); err == nil && strings.HasPrefix(whole+separator, folder+separator) {
			return nil
		}
	}
	if Offline(table, o).knows {
		return nil
	}
	return badAddress("ledger sqlite:%s: there is no folder %s; correct the path, or make it with mkdir -p %[2]s",
		path, folder)
}

// openRedis opens a ledger in Redis.
func (o *Options) openRedis(address string) (l quota.Ledger, err error) {
	options := &redisledger.Options{Now: o.Now}
	if options.Password, err = o.secret(passwordVariable); err != nil {
		return nil, err
	}
	if options.SentinelPassword, err = o.secret(sentinelPasswordVariable); err != nil {
		return nil, err
	}
	l, err = opened(redisledger.Open(address, options))
	if wrong, ok := errors.AsType[*redisledger.AddressError](err); ok {
		shown, _ := redisledger.Redact(address)
		err = badAddress("ledger %s: %w", shown, wrong.Err)
	}
	return l, err
}

// Inspect returns findings about the settings of a ledger in Redis, and none
// for another ledger.
func (c *Client) Inspect(ctx context.Context) ([]redisledger.Finding, error) {
	if l, ok := c.inner.(*redisledger.Ledger); ok {
		return l.Inspect(ctx)
	}
	return nil, nil
}
