package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/allowance"
	"github.com/ration-dev/ration/quota/privatefile"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// errNoLedger says that nothing was spent yet, so that there is no ledger.
var errNoLedger = errors.New("no ledger yet")

// ledger is the ledger in use and its name, fit to be shown.
type ledger struct {
	quota.Ledger
	name string
}

// openLedger opens the ledger that the flag, the environment, costs.yaml or
// else the state folder names. Without create, one that is not there is errNoLedger.
func (a *app) openLedger(table *costs.Table, create bool) (*ledger, error) {
	address := a.env(a.ledgerURL, "RATION_LEDGER")
	if address == "" {
		address = table.Ledger()
	}
	if address == "" {
		dir, err := a.state()
		if err != nil {
			return nil, err
		}
		return a.openSQLite(filepath.Join(dir, "ration.db"), "", create)
	}
	scheme, rest, _ := strings.Cut(address, ":")
	switch scheme {
	case "sqlite":
		path, options, _ := strings.Cut(rest, "?")
		if err := a.checkFolder(path); err != nil {
			return nil, err
		}
		return a.openSQLite(path, options, create)
	case "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		return a.openRedis(address)
	case "memory":
		return nil, &configError{errors.New("ledger memory: would be forgotten when this command ends; name sqlite:FILE or redis://HOST:PORT/DB")}
	}
	return nil, &configError{fmt.Errorf("ledger: its address, which is not shown since it may hold a password, is of an unknown kind; %s", kindAdvice(address))}
}

// kindAdvice says what to write instead of an address of an unknown kind.
func kindAdvice(address string) string {
	kind, _, found := strings.Cut(address, ":")
	if !found && strings.ContainsAny(address, "./") && !strings.ContainsAny(address, "@?;=#&%") {
		return "write sqlite:" + address
	}
	kinds := []string{"sqlite", "redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}
	if meant := meantName(kind, kinds); meant == "sqlite" {
		return "write sqlite:FILE"
	} else if meant != "" {
		return fmt.Sprintf("write %s://…", meant)
	}
	return "write sqlite:FILE or redis://HOST:PORT/DB"
}

// checkFolder refuses a ledger that was named in a folder that does not exist,
// probably a typo: made, it would be a second, empty ledger. Only the state folder
// and those above it are made.
func (a *app) checkFolder(path string) error {
	if path == "" || strings.HasPrefix(path, "~") || strings.Contains(path, "://") || strings.HasPrefix(path, "//") {
		return nil // openSQLite refuses these
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return &configError{err}
	}
	folder, sep := filepath.Dir(path), string(filepath.Separator)
	if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
		return nil // what else is wrong, opening it says
	}
	if state, err := a.state(); err == nil {
		if state, err = filepath.Abs(state); err == nil && strings.HasPrefix(state+sep, folder+sep) {
			return nil
		}
	}
	return &configError{fmt.Errorf("ledger sqlite:%s: there is no folder %s; correct the path, or make it with mkdir -p %[2]s", path, folder)}
}

func (a *app) openSQLite(path, options string, create bool) (*ledger, error) {
	sync := sqliteledger.Full
	switch options {
	case "", "sync=full":
	case "sync=normal":
		sync = sqliteledger.Normal
	default:
		return nil, &configError{errors.New("ledger sqlite: unknown option; write sync=full or sync=normal")}
	}
	if strings.Contains(path, "://") || strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///") {
		return nil, &configError{errors.New("ledger sqlite: names another address in place of a file; write sqlite:FILE, or the other address alone")}
	}
	if strings.HasPrefix(path, "~") {
		return nil, &configError{fmt.Errorf("ledger sqlite:%s begins with ~, which only a shell expands; write the whole path", path)}
	}
	if path == "" {
		return nil, &configError{errors.New("ledger sqlite: names no file; write sqlite:FILE")}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, &configError{err}
	}
	l := &ledger{name: "sqlite:" + path}
	l.Ledger, err = sqliteledger.Open(path, &sqliteledger.Options{Sync: sync, Now: a.ledgerClock(), MustExist: !create})
	if errors.Is(err, sqliteledger.ErrNoLedger) {
		return l, errNoLedger
	}
	if err != nil {
		return l, fmt.Errorf("ledger %s: %w", l.name, err)
	}
	return l, nil
}

// openRedis takes passwords from the environment or a file: what is on a
// command line, every user of the host can read.
func (a *app) openRedis(address string) (_ *ledger, err error) {
	name, secret := redisledger.Redact(address)
	if secret {
		return nil, &configError{fmt.Errorf("ledger %s: a password does not belong into its address; put it into RATION_REDIS_PASSWORD, or name a file with RATION_REDIS_PASSWORD_FILE", name)}
	}
	l, o := &ledger{name: name}, &redisledger.Options{Now: a.ledgerClock()}
	if o.Password, err = a.secret("RATION_REDIS_PASSWORD"); err != nil {
		return nil, err
	}
	if o.SentinelPassword, err = a.secret("RATION_REDIS_SENTINEL_PASSWORD"); err != nil {
		return nil, err
	}
	redis.SetLogger(silent{}) // it would write to stderr what the errors say as well
	if l.Ledger, err = redisledger.Open(address, o); err != nil {
		return l, fmt.Errorf("ledger %s: %w", l.name, err)
	}
	return l, nil
}

// secret returns what a variable of the environment, or the file that its
// _FILE names, holds, and keeps it out of all that is printed.
func (a *app) secret(variable string) (string, error) {
	secret := a.getenv(variable)
	if file := a.getenv(variable + "_FILE"); secret == "" && file != "" {
		data, err := privatefile.ReadSecret(file)
		if err != nil {
			return "", &configError{fmt.Errorf("%s_FILE: %w; name a file that holds the password", variable, err)}
		}
		secret = strings.TrimRight(string(data), "\r\n")
	}
	a.conceal(secret)
	return secret, nil
}

// silent is a logger that says nothing.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// ledgerClock returns nil, which is the ledger's own clock, unless now is not
// the system's.
func (a *app) ledgerClock() func() time.Time {
	if a.fixed {
		return a.now
	}
	return nil
}

// spending is a guard on a ledger that may fall back to the allowances of costs.yaml.
type spending struct {
	guard     *quota.Guard
	ledger    *ledger
	allowance *allowance.Ledger
}

func (a *app) openGuard(table *costs.Table, create bool) (*spending, error) {
	l, err := a.openLedger(table, create)
	if err != nil {
		if errors.Is(err, errNoLedger) {
			s := &spending{ledger: l, allowance: a.openAllowance(nil, table)}
			a.watchOutages(l.name, func() (quota.Units, error) { return unrecorded(s, table) })
			return s, err
		}
		return nil, err
	}
	s := &spending{ledger: l}
	watch := a.watchOutages(l.name, func() (quota.Units, error) { return unrecorded(s, table) })
	s.allowance = a.openAllowance(&underAllowance{l.Ledger, watch}, table)
	if s.guard, err = quota.NewGuard(&overAllowance{s.allowance, watch}, table.Budgets(), &quota.Options{History: table.History()}); err != nil {
		return nil, &configError{err}
	}
	return s, nil
}

// openAllowance counts in the state folder. Where there is none, as in a bare
// environment whose ledger is named elsewhere, nothing is allowed.
func (a *app) openAllowance(l quota.Ledger, table *costs.Table) *allowance.Ledger {
	dir, err := a.state()
	if err != nil {
		return allowance.New(l, "", nil)
	}
	return allowance.New(l, filepath.Join(dir, "allowance"), &allowance.Options{Allow: table.Allowance, Now: a.ledgerClock()})
}

func (s *spending) Close() error { return s.allowance.Close() }

// fetching is all that a run needs.
type fetching struct {
	*spending
	catalog *catalog.Catalog
	runner  *jobs.Runner

	// newRunner returns one that counts its waits, retries and charges anew.
	newRunner func() (*jobs.Runner, error)
	unsettled func(quota.Call, error)
}

// openFetching puts the chain together: Google's client, the guard, the key,
// the wire.
func (a *app) openFetching(ctx context.Context, table *costs.Table, config *jobs.Config, key string) (_ *fetching, err error) {
	f := &fetching{unsettled: a.unsettled}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	dir, err := a.makeState()
	if err != nil {
		return nil, err
	}
	if f.spending, err = a.openGuard(table, true); err != nil {
		return nil, err
	}
	if f.catalog, err = catalog.Open(filepath.Join(dir, "catalog.db"), &catalog.Options{Now: a.now}); err != nil {
		return nil, err
	}
	upstream, err := youtubeOf(table)
	if err != nil {
		return nil, err
	}
	endpoint := a.env(a.endpoint, "RATION_ENDPOINT")
	hosts := upstream.Hosts
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil {
			return nil, &configError{err}
		}
		hosts = []string{u.Host}
		endpoint = strings.TrimRight(endpoint, "/") + "/"
	}
	said, err := a.feedbackOf(table)
	if err != nil {
		return nil, err
	}
	a.concealProxies()
	base := &youtube.KeyTransport{Key: key, Hosts: hosts, Base: wire()}
	f.newRunner = func() (*jobs.Runner, error) {
		meter := &jobs.Meter{}
		client, err := youtube.New(ctx, &http.Client{Transport: &quota.Transport{
			Guard: f.guard, Price: guardedOnly(table.Price), MaxWait: config.MaxWait, MaxTotalWait: config.MaxTotalWait, Retries: 2,
			Base: base, Feedback: said, Charged: meter.Charged, Report: f.unsettled,
		}}, endpoint)
		if err != nil {
			return nil, err
		}
		if u, err := url.Parse(client.BaseURL()); err == nil && table.UpstreamOf(u) == nil {
			return nil, &configError{fmt.Errorf("the client of Google calls %s, which costs.yaml does not guard; add its host to hosts", client.BaseURL())}
		}
		return &jobs.Runner{Catalog: f.catalog, Client: client, Meter: meter, Now: a.now}, nil
	}
	f.runner, err = f.newRunner()
	return f, err
}

func (f *fetching) Close() {
	if f.catalog != nil {
		f.catalog.Close()
	}
	if f.spending != nil {
		if f.guard != nil {
			ctx, cancel := context.WithTimeout(context.Background(), drainTime)
			defer cancel()
			f.guard.Drain(ctx)
		}
		f.spending.Close()
	}
}

// drainTime is how long a command that ends waits for what the upstream's
// answers said about its quota to reach the ledger.
const drainTime = 5 * time.Second

// youtubeOf returns the upstream that the jobs fetch from.
func youtubeOf(table *costs.Table) (*costs.Upstream, error) {
	for _, u := range table.Upstreams() {
		if u.API == "youtube/v3" {
			return &u, nil
		}
	}
	return nil, &configError{errors.New("costs.yaml has no upstream with api: youtube/v3, which the jobs fetch from; add one")}
}

// guardedOnly is a pricer that lets nothing pass: a job has no business with a
// host that is not guarded. A redirect to one is the upstream's doing and not
// the file's, so it is left to quota.Transport, which refuses it.
func guardedOnly(price func(*http.Request) (quota.Call, error)) func(*http.Request) (quota.Call, error) {
	return func(req *http.Request) (quota.Call, error) {
		call, err := price(req)
		if errors.Is(err, quota.ErrUnguarded) && req.Response == nil {
			return call, &configError{fmt.Errorf("the call goes to %q, which costs.yaml does not guard; add it to hosts", req.URL.Host)}
		}
		return call, err
	}
}

// unsettled reports a correction that did not reach the ledger, whose units
// stay charged, and, always, what an answer says against costs.yaml.
func (a *app) unsettled(call quota.Call, err error) {
	if disagrees(err) {
		fmt.Fprintf(a.stderr, "ration: %v\n", err)
	} else if a.verbose {
		fmt.Fprintf(a.stderr, "ration: %s stays charged: %v\n", call.Method, err)
	}
}

// disagrees reports whether an answer gives another limit or cost than
// costs.yaml.
func disagrees(err error) bool {
	_, limit := errors.AsType[*quota.LimitError](err)
	_, cost := errors.AsType[*quota.CostError](err)
	return limit || cost
}
