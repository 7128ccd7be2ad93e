package client

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// The variables that passwords for Redis come from.
const (
	passwordVariable         = "RATION_REDIS_PASSWORD"
	sentinelPasswordVariable = "RATION_REDIS_SENTINEL_PASSWORD"
)

// StateFolder returns the state folder that an environment names, without
// making it: RATION_STATE, else the first of STATE_DIRECTORY, which systemd
// sets, else ration in LOCALAPPDATA (on Windows), XDG_STATE_HOME or
// HOME/.local/state. It returns a *ConfigError if there is none of these.
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
	return "", configError("no state folder: there is no HOME here; name one with --state or RATION_STATE")
}

func (o *Options) stateFolder() (string, error) {
	if o.State != "" {
		return o.State, nil
	}
	return StateFolder(o.Getenv)
}

// secret returns the password that a variable holds, or the file that variable
// with _FILE appended names.
func (o *Options) secret(variable string) (string, error) {
	secret := o.Getenv(variable)
	if file := o.Getenv(variable + "_FILE"); secret == "" && file != "" {
		data, err := privatefile.ReadSecret(file)
		if err != nil {
			return "", configError("%s_FILE: %w; name a file that holds the password", variable, err)
		}
		secret = strings.TrimRight(string(data), "\r\n")
	}
	if o.Conceal != nil && secret != "" {
		o.Conceal(secret)
	}
	return secret, nil
}

// ledgerFile is the file in the state folder that names the ledger used last.
const ledgerFile = "ledger.json"

// lastLedger is the content of ledgerFile.
type lastLedger struct {
	Ledger string `json:"ledger"`
}

// CheckMove returns an *EmptyLedgerError if CheckMove was last called with
// another ledger on this state folder and the present ledger is empty, and
// remembers the present one, making the state folder. It returns nil if the
// ledger cannot be asked, and then remembers nothing, so that a later call finds
// out.
func (c *Client) CheckMove(ctx context.Context) error {
	if c.state == "" {
		return nil
	}
	path := filepath.Join(c.state, ledgerFile)
	var last lastLedger
	if text, err := privatefile.ReadFile(path, maxStateFile); err == nil {
		_ = json.Unmarshal(text, &last) // a malformed file says nothing
	}
	if last.Ledger == c.name {
		return nil
	}
	empty := false
	if last.Ledger != "" {
		var err error
		if empty, err = c.isEmpty(ctx); err != nil {
			return nil
		}
	}
	text, err := json.Marshal(lastLedger{c.name})
	if err == nil && privatefile.MkdirAll(c.state) == nil {
		_ = privatefile.Replace(path, append(text, '\n'), false) // else it warns again
	}
	if empty {
		return &EmptyLedgerError{Ledger: c.name, Before: last.Ledger}
	}
	return nil
}

// isEmpty reports whether the ledger holds no entry of any account.
func (c *Client) isEmpty(ctx context.Context) (bool, error) {
	for _, account := range c.table.Accounts() {
		for _, err := range c.ledger.Entries(ctx, quota.Query{Account: account}) {
			return false, err
		}
	}
	return true, nil
}
