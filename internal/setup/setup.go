// Package setup finds and opens what the commands of ration work with: the
// configuration files, the state folder, the API key, the ledger's client,
// the catalogue and the gateway. Flags decide, and the environment where they
// say nothing.
//
// A library user needs none of it: client.Open and jobs.Fetcher take what they
// open from their own options.
package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// ErrNoLedger means that the ledger does not exist yet: nothing was spent.
var ErrNoLedger = errors.New("no ledger yet")

// Setup opens things, and remembers which client it has opened last. All fields
// but Documents are required, or have the zero value that is described. It is
// not safe for concurrent use.
type Setup struct {
	Folder   string // of the configuration files; "" is RATION_CONFIG
	Ledger   string // as in client.Options
	State    string // as in client.Options
	Endpoint string // base URL of a server in place of the upstream; "" is RATION_ENDPOINT

	MaxShare float64 // as in client.Options

	Version   string // of this program, for the page
	Getenv    func(string) string
	Now       func() time.Time
	Fixed     bool          // Now is not the system's clock
	ClaimTime time.Duration // of passes, as in jobs.Runner

	// Conceal keeps a secret out of all that is printed from now on. Redact
	// removes these secrets from a text. Both are safe for concurrent use.
	Conceal func(secret string)
	Redact  func(text string) string
	// ConcealProxies conceals the passwords of the proxies that the
	// environment names.
	ConcealProxies func()
	// Clean returns the text of an error for users: its URLs cut to what cannot
	// be a secret.
	Clean func(text string) string
	// Report is called with what clients report; see client.Options.
	Report func(quota.Call, error)
	// Documents returns what gateways show; see gateway.Options. nil
	// shows none.
	Documents func() map[string]gateway.Document

	Opened *costs.Table    // what was opened last; nil until then
	Client *client.Client  // of Opened; nil if its ledger does not exist
	Timer  *metrics.Ledger // of Client's ledger
	relay  *relay          // of Client
}

// env returns the flag's value if it was given, else the environment's.
func (s *Setup) env(flag, variable string) string { return cmp.Or(flag, s.Getenv(variable)) }

// UpstreamEndpoint returns the base URL of a server in place of the upstream,
// or "".
func (s *Setup) UpstreamEndpoint() string { return s.env(s.Endpoint, "RATION_ENDPOINT") }

// File returns the path of a configuration file.
func (s *Setup) File(name string) (string, error) {
	return client.ConfigFile(name, s.env(s.Folder, "RATION_CONFIG"), s.Getenv)
}

// Prices loads costs.yaml, and makes an endpoint priced as the upstream's own.
func (s *Setup) Prices() (*costs.Table, error) {
	path, err := s.File("costs.yaml")
	if err != nil {
		return nil, err
	}
	table, err := costs.Load(path)
	if err != nil {
		return nil, unreadable(err, otherFolder)
	}
	if endpoint := s.UpstreamEndpoint(); endpoint != "" {
		if table, err = table.WithEndpoint("", endpoint); err != nil {
			where := "--endpoint"
			if s.Endpoint == "" {
				where = "RATION_ENDPOINT"
			}
			return nil, &client.ConfigError{Err: fmt.Errorf("%s: %w", where, errors.Unwrap(err))}
		}
	}
	return table, nil
}

// CheckedPrices is Prices for a command that does not open the ledger. Its
// address is checked all the same.
func (s *Setup) CheckedPrices() (*costs.Table, error) {
	table, err := s.Prices()
	if err == nil {
		err = client.CheckLedger(table, s.Options())
	}
	return table, err
}

// OtherPrices loads another costs.yaml than the one of the folder.
func (s *Setup) OtherPrices(path string) (*costs.Table, error) {
	table, err := costs.Load(path)
	if err != nil {
		return nil, unreadable(err, "name a costs.yaml that this user can read")
	}
	return table, nil
}

// otherFolder says what to do about a configuration file that cannot be read.
const otherFolder = "make it readable for this user, or name another folder with --config"

// unreadable returns the error of a configuration file, with what to do if the
// file cannot be read. Other errors say that themselves.
func unreadable(err error, advice string) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%w; %s", err, advice)
	}
	return &client.ConfigError{Err: err}
}

// PricesAndRegions loads costs.yaml and regions.yaml.
func (s *Setup) PricesAndRegions() (*costs.Table, *jobs.Config, error) {
	table, err := s.Prices()
	if err != nil {
		return nil, nil, err
	}
	config, err := s.Regions(table, jobs.Lane)
	return table, config, err
}

// Regions loads regions.yaml, checked against the prices for calls of a lane: a
// budget may cover one lane and not another.
func (s *Setup) Regions(table *costs.Table, lane string) (*jobs.Config, error) {
	path, err := s.File("regions.yaml")
	if err != nil {
		return nil, err
	}
	config, err := jobs.Load(path, func(method string, caller quota.Caller) error {
		caller.Lane = lane
		err := table.CheckFetched(method, caller)
		if errors.Is(err, costs.ErrNoBudget) && lane != jobs.Lane {
			return fmt.Errorf("%w (in lane %s)", err, human.Name(lane))
		}
		return err
	})
	if err != nil {
		return nil, unreadable(err, otherFolder)
	}
	if err := CheckRegions(table, config.Regions); err != nil {
		return nil, &client.ConfigError{Err: fmt.Errorf("regions.yaml: %w", err)}
	}
	return config, nil
}

// HasRegions reports whether there is a regions.yaml, or one that cannot
// be read.
func (s *Setup) HasRegions() bool {
	_, err := s.File("regions.yaml")
	_, missing := errors.AsType[*client.MissingFileError](err)
	return !missing
}

// Schedule returns the regions of regions.yaml, or nil if there is none.
func (s *Setup) Schedule(table *costs.Table) ([]jobs.Region, error) {
	if !s.HasRegions() {
		return nil, nil
	}
	config, err := s.Regions(table, jobs.Lane)
	if err != nil {
		return nil, err
	}
	return config.Regions, nil
}

// StateFolder returns the folder of what ration keeps, without making it.
func (s *Setup) StateFolder() (string, error) {
	if s.State != "" {
		return s.State, nil
	}
	return client.StateFolder(s.Getenv)
}

// MakeState returns the state folder, made for its owner alone when it
// is missing.
func (s *Setup) MakeState() (string, error) {
	dir, err := s.StateFolder()
	if err != nil {
		return "", err
	}
	if err := files.MkdirAll(dir); err != nil {
		return "",
			&client.ConfigError{Err: fmt.Errorf("state folder: %w; make it writable, or name another with --state",
				err)}
	}
	return dir, nil
}

// OpenCatalog opens the catalogue of the state folder. Both are made if they
// are missing.
func (s *Setup) OpenCatalog() (*catalog.Catalog, error) {
	dir, err := s.MakeState()
	if err != nil {
		return nil, err
	}
	return catalog.Open(catalogIn(dir), &catalog.Options{Now: s.Now, Host: client.HostName(s.Getenv)})
}

// FindCatalog opens the catalogue, or returns catalog.ErrNoCatalog.
func (s *Setup) FindCatalog() (*catalog.Catalog, error) {
	dir, err := s.StateFolder()
	if err != nil {
		return nil, err
	}
	return catalog.OpenExisting(catalogIn(dir), &catalog.Options{Now: s.Now})
}

func catalogIn(state string) string { return filepath.Join(state, "catalog.db") }

// LevelMarks returns where the levels that were reported are remembered.
func (s *Setup) LevelMarks() (report.LevelMarks, error) {
	dir, err := s.StateFolder()
	return report.LevelMarks{Dir: filepath.Join(dir, "levels")}, err
}

// LastRefusal returns the last refusal, and nil when none is known.
func (s *Setup) LastRefusal() (*client.Refusal, error) {
	dir, err := s.StateFolder()
	if err != nil {
		return nil, err
	}
	return client.LastRefusal(dir)
}

// WhyNoRefusal says why LastRefusal returns none.
func (s *Setup) WhyNoRefusal() string {
	dir, err := s.StateFolder()
	if err == nil {
		if _, err = os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			err = files.Makeable(dir)
		} else if err == nil {
			err = files.Writable(dir)
		}
	}
	if err == nil {
		return "no command or gateway with this state folder has had one"
	}
	return "this user cannot write to the state folder (" + err.Error() +
		"); make it writable, or name another with --state"
}

// secret returns a secret and where it was found: in a file or, if none is
// named, in a variable of the environment. It is never on the command line, and
// from here on never in what is printed.
func (s *Setup) secret(variable, file, kind, what string) (secret, where string, err error) {
	secret, where = s.Getenv(variable), variable
	if file != "" {
		data, err := files.ReadSecret(file)
		if _, ok := errors.AsType[*fs.PathError](err); ok { // other errors say what to do
			err = fmt.Errorf("%w; name one that holds %s", err, what)
		}
		if err != nil {
			return "", "", &client.ConfigError{Err: fmt.Errorf("%s: %w", kind, err)}
		}
		secret, where = string(data), kind+" "+file
	}
	secret = strings.TrimSpace(secret)
	s.Conceal(secret)
	return secret, where, nil
}

// isPlain reports whether a secret has only visible ASCII characters.
func isPlain(secret string) bool {
	return !strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Key returns the API key.
func (s *Setup) Key(file string) (string, error) {
	key, where, err := s.secret("YOUTUBE_API_KEY", file, "key file", "the API key")
	if err != nil {
		return "", err
	}
	isMissing := file != "" && key == ""
	if isMissing || len(key) > 1000 || !isPlain(key) {
		return "", &client.ConfigError{Err: fmt.Errorf("%s: it must hold the API key on one line and nothing else",
			where)}
	}
	return key, nil
}

// FetchKey checks the API key, and returns a function that reads it, as Key
// does, for each request: the file may have another one by then. It is an error
// if the regions need a key and there is none.
func (s *Setup) FetchKey(file string, regions []jobs.Region) (func() (string, error), error) {
	key, err := s.Key(file)
	needsKey := jobs.FetchesYouTube(regions) && s.UpstreamEndpoint() == ""
	if err == nil && needsKey && key == "" {
		err = &client.ConfigError{Err: errors.New("no API key; put it into YOUTUBE_API_KEY, or name a file with " +
			"--key-file")}
	}
	if files.IsStream(file) { // which can be read once
		return func() (string, error) { return key, nil }, err
	}
	return func() (string, error) { return s.Key(file) }, err
}
