package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
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

// JournalFolder returns the folder of the journal that New would use, or "" if
// there is none. See Options.Journal.
func JournalFolder(o *Options) string {
	options := o.withDefaults()
	return options.journalFolder()
}

// journalFolder returns the folder of the journal, or "" if there is none.
func (o *Options) journalFolder() string {
	inside := func(dir string, path ...string) string {
		if !filepath.IsAbs(dir) {
			return ""
		}
		return filepath.Join(append([]string{dir}, path...)...)
	}
	local := ""
	if runtime.GOOS == "windows" {
		local = inside(o.Getenv("LOCALAPPDATA"), "ration", "journal")
	}
	service := ""
	switch dirs := filepath.SplitList(o.Getenv("STATE_DIRECTORY")); len(dirs) {
	case 0:
	case 1:
		service = inside(dirs[0], "journal")
	default: // a folder of its own; drop-ins of the unit add others behind it
		service = inside(dirs[1])
	}
	beside := ""
	if state, err := o.stateFolder(); err == nil && state != "" {
		beside = filepath.Join(state, "journal")
	}
	if o.Opened != nil {
		return cmp.Or(o.Journal, beside)
	}
	return cmp.Or(o.Journal, o.Getenv("RATION_JOURNAL"), inside(o.Getenv("XDG_DATA_HOME"), "ration", "journal"), service,
		local, inside(o.Getenv("HOME"), ".local", "share", "ration", "journal"), beside)
}

// secret returns the password in a variable, or in the file that the variable
// with _FILE appended names. It returns "" if there is none.
func (o *Options) secret(variable string) (string, error) {
	secret := o.Getenv(variable)
	if file := o.Getenv(variable + "_FILE"); secret == "" && file != "" {
		data, err := privatefile.ReadSecret(file)
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

// ledgerFile is the file in the state folder that names the ledger used last.
const ledgerFile = "ledger.json"

// lastLedger is the content of ledgerFile.
type lastLedger struct {
	Ledger string `json:"ledger"`
}

// CheckMove returns what CheckEmpty does, and then remembers the ledger in the
// state folder, which it creates if needed. If the ledger has to be asked and
// cannot be reached, it returns nil and remembers nothing, so that a later call
// can tell.
func (c *Client) CheckMove(ctx context.Context) error {
	if c.state == "" || c.lastLedger() == c.name {
		return nil
	}
	found := c.CheckEmpty(ctx)
	if _, empty := errors.AsType[*EmptyLedgerError](found); found != nil && !empty {
		return nil
	}
	text, err := json.Marshal(lastLedger{c.name})
	if err == nil && privatefile.MkdirAll(c.state) == nil {
		_ = privatefile.Replace(filepath.Join(c.state, ledgerFile), append(text, '\n'), false) // best effort: without it the warning is repeated
	}
	return found
}

// CheckEmpty returns an *EmptyLedgerError if the ledger is empty or does not
// exist, and the last call of CheckMove with this state folder was for another
// ledger. A ledger that an account is being moved to is not empty. CheckEmpty
// writes nothing.
func (c *Client) CheckEmpty(ctx context.Context) error {
	before := c.lastLedger()
	if before == "" || before == c.name {
		return nil
	}
	if empty, err := c.isEmpty(ctx); !empty || err != nil {
		return err
	}
	for _, account := range c.table.Accounts() {
		if c.inner == nil {
			break
		}
		if _, moves, err := c.guard.Moves(ctx, account); moves || err != nil {
			return err
		}
	}
	return &EmptyLedgerError{Ledger: c.name, Before: before}
}

// lastLedger returns the ledger that CheckMove remembers, or "".
func (c *Client) lastLedger() string {
	var last lastLedger
	if text, err := privatefile.ReadFile(filepath.Join(c.state, ledgerFile), maxStateFile); c.state != "" && err == nil {
		_ = json.Unmarshal(text, &last) // a malformed file is ignored
	}
	return last.Ledger
}

// CheckJournal returns an error if the journal of this host knows no call, and
// the ledger has some: on a new host, or one that has lost its journal, such as
// a container with an empty volume. It writes nothing.
func (c *Client) CheckJournal(ctx context.Context) error {
	if known, err := c.isKnown(); known || err != nil {
		return nil // another check says what is wrong with the journal
	}
	if empty, err := c.isEmpty(ctx); empty || err != nil {
		return nil
	}
	return fmt.Errorf("the journal of this host knows none of the calls on %s: if this host is not new, its journal is lost, and so is what it could restore of them; give it a folder that stays (RATION_JOURNAL)", c.name)
}

// isKnown reports whether the journal of this host knows any call on the
// ledger.
func (c *Client) isKnown() (bool, error) {
	for _, account := range c.table.Accounts() {
		if known, err := c.journal.Knows(account); known || err != nil {
			return known, err
		}
	}
	return false, nil
}

// CheckSpelling returns a *quota.LookAlikeError if the ledger has an account of
// the table under another spelling, so that calls of it are refused. It writes
// nothing.
func (c *Client) CheckSpelling(ctx context.Context) error {
	for _, account := range c.table.Accounts() {
		if has, err := c.hasEntry(ctx, account); err != nil {
			return err
		} else if has {
			continue
		}
		var alike error
		for known, err := range c.journal.Accounts(ctx) {
			if err != nil {
				return err
			}
			if known == account {
				alike = nil
				break
			}
			alike = cmp.Or(alike, quota.CheckLookAlike(account, known))
		}
		if alike != nil {
			return alike
		}
	}
	return nil
}

// isEmpty reports whether the ledger holds no entry of any account, as one that
// does not exist.
func (c *Client) isEmpty(ctx context.Context) (bool, error) {
	if c.inner == nil {
		return true, nil
	}
	for _, account := range c.table.Accounts() {
		if has, err := c.hasEntry(ctx, account); has || err != nil {
			return false, err
		}
	}
	return true, nil
}

// hasEntry reports whether the ledger holds an entry of an account without a
// key.
func (c *Client) hasEntry(ctx context.Context, account string) (bool, error) {
	for _, err := range c.journal.Entries(ctx, quota.Query{Account: account}) {
		return err == nil, err
	}
	return false, nil
}
