package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
)

// The environment variables with passwords for Redis.
const (
	passwordVariable         = "RATION_REDIS_PASSWORD"
	sentinelPasswordVariable = "RATION_REDIS_SENTINEL_PASSWORD"
)

// StateFolder returns the state folder that the environment names, without
// creating it: RATION_STATE, else the first folder in STATE_DIRECTORY (which
// systemd sets), else the folder ration in LOCALAPPDATA (on Windows),
// XDG_STATE_HOME or HOME/.local/state. If none is set, it returns a
// *ConfigError.
func StateFolder(getenv func(string) string) (string, error) {
	if dir := getenv("RATION_STATE"); dir != "" {
		return dir, nil
	}
	if dirs := getenv("STATE_DIRECTORY"); dirs != "" {
		return filepath.SplitList(dirs)[0], nil
	}
	if dir := getenv("LOCALAPPDATA"); dir != "" && runtime.GOOS == "windows" {
		return filepath.Join(dir, "ration"), nil
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ration"), nil
	}
	if home := getenv("HOME"); home != "" {
		return filepath.Join(home, ".local", "state", "ration"), nil
	}
	return "", configError("no state folder: HOME is not set; name a folder with --state or RATION_STATE")
}

func (o *Options) stateFolder() (string, error) {
	if o.State != "" || o.Opened != nil {
		return o.State, nil
	}
	return StateFolder(o.Getenv)
}

// ReplicaFolder returns the folder of the host's copy that New would use, or ""
// if there is none. See Options.Replica.
func ReplicaFolder(o *Options) string {
	options := o.withDefaults()
	return options.replicaFolder()
}

// replicaFolder returns the folder of the replica, or "" if there is none.
func (o *Options) replicaFolder() string {
	beside := ""
	if state, err := o.stateFolder(); err == nil && state != "" {
		beside = filepath.Join(state, "replica")
	}
	if o.Opened != nil {
		return cmp.Or(o.Replica, beside)
	}
	return cmp.Or(o.Replica, o.Getenv("RATION_JOURNAL"), beside)
}

// secret returns the password in a variable, or in the file that the variable
// with _FILE appended names. It returns "" if there is none.
func (o *Options) secret(variable string) (string, error) {
	secret := o.Getenv(variable)
	if file := o.Getenv(variable + "_FILE"); secret == "" && file != "" {
		data, err := files.ReadSecret(file)
		if _, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("%w; name a file that holds the password", err)
		}
		if err != nil {
			return "", configError("%s_FILE: %w", variable, err)
		}
		secret = strings.TrimRight(string(data), "\r\n")
	}
	if o.Conceal != nil && secret != "" {
		o.Conceal(secret)
	}
	return secret, nil
}

// ledgerFile is the file in the state folder that names the ledger that each
// costs.yaml used last.
const ledgerFile = "ledger.json"

// lastLedgers is the content of ledgerFile.
type lastLedgers struct {
	Ledgers map[string]string `json:"ledgers"` // by the path of the costs.yaml
}

// CheckMove returns what CheckEmpty does, and then remembers the ledger in the
// state folder, which it creates if needed. If the ledger has to be asked and
// cannot be reached, it returns nil and remembers nothing, so that a later call
// can tell.
func (c *Client) CheckMove(ctx context.Context) error {
	last := c.lastLedgers()
	if c.state == "" || last[c.table.Path()] == c.name {
		return nil
	}
	found := c.CheckEmpty(ctx)
	if _, empty := errors.AsType[*EmptyLedgerError](found); found != nil && !empty {
		return nil
	}
	maps.DeleteFunc(last, func(path, _ string) bool {
		_, err := os.Stat(path)
		return path != "" && errors.Is(err, fs.ErrNotExist)
	})
	last[c.table.Path()] = c.name
	text, err := json.Marshal(lastLedgers{last})
	if err == nil && files.MkdirAll(c.state) == nil {
		// Best effort: without it the warning is repeated.
		_ = files.Replace(filepath.Join(c.state, ledgerFile), append(text, '\n'), false)
	}
	return found
}

// CheckEmpty returns an *EmptyLedgerError if the ledger is empty or does not
// exist, and the last call of CheckMove with this costs.yaml was for another
// ledger. A ledger that an account is being moved to is not empty. CheckEmpty
// writes nothing.
func (c *Client) CheckEmpty(ctx context.Context) error {
	before := c.lastLedgers()[c.table.Path()]
	if before == "" || before == c.name {
		return nil
	}
	if empty, err := c.isEmpty(ctx, time.Time{}); !empty || err != nil {
		return err
	}
	for _, account := range c.table.Accounts() {
		if c.inner == nil {
			break
		}
		if moved, err := c.guard.Moved(ctx, account); moved != nil || err != nil {
			return err
		}
	}
	return &EmptyLedgerError{Ledger: c.name, Before: before}
}

// lastLedgers returns the ledgers that CheckMove remembers.
func (c *Client) lastLedgers() map[string]string {
	var last lastLedgers
	if text, err := files.ReadFile(filepath.Join(c.state, ledgerFile), maxStateFile); c.state != "" && err == nil {
		_ = json.Unmarshal(text, &last) // a malformed file is ignored
	}
	if last.Ledgers == nil {
		return map[string]string{}
	}
	return last.Ledgers
}

// CheckSpelling returns a *engine.LookAlikeError if the ledger has an account
// of the table under another spelling, so that calls of it are refused. It
// writes nothing.
func (c *Client) CheckSpelling(ctx context.Context) error {
	for _, account := range c.table.Accounts() {
		var alike error
		for known, err := range c.ledger.Accounts(ctx) {
			if err != nil {
				return err
			}
			if known == account {
				alike = nil
				break
			}
			if is := (&engine.LookAlikeError{Account: account, Known: known}); is.IsAlike() {
				alike = cmp.Or(alike, error(is))
			}
		}
		if alike != nil {
			return alike
		}
	}
	return nil
}

// isEmpty reports whether the ledger holds no entry of any account from before
// a time, or at all for the zero time. One that does not exist is empty.
func (c *Client) isEmpty(ctx context.Context, before time.Time) (bool, error) {
	if c.inner == nil {
		return true, nil
	}
	for _, account := range c.table.Accounts() {
		if has, err := c.hasEntry(ctx, account, before); has || err != nil {
			return false, err
		}
	}
	return true, nil
}

// hasEntry reports whether the ledger holds an entry of an account without a
// key, from before a time unless that is zero.
func (c *Client) hasEntry(ctx context.Context, account string, before time.Time) (bool, error) {
	for _, err := range c.guard.Entries(ctx, quota.Query{Account: account, Until: before}) {
		return err == nil, err
	}
	return false, nil
}
