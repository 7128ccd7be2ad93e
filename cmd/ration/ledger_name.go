package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
	"github.com/ration-dev/ration/quota/redisledger"
)

// ledgerName returns which ledger the configuration names, without opening it.
// Two names differ where two ledgers may.
func (a *app) ledgerName(table *costs.Table) string {
	address := a.env(a.ledgerURL, "RATION_LEDGER")
	if address == "" {
		address = table.Ledger()
	}
	if address == "" {
		dir, err := a.state()
		if err != nil {
			return ""
		}
		address = "sqlite:" + filepath.Join(dir, "ration.db")
	}
	if rest, ok := strings.CutPrefix(address, "sqlite:"); ok {
		path, _, _ := strings.Cut(rest, "?")
		if whole, err := filepath.Abs(path); err == nil {
			path = whole
		}
		return "sqlite:" + path
	}
	shown, _ := redisledger.Redact(address)
	if strings.HasPrefix(address, "unix:") { // its database is a parameter, which is not shown
		if u, err := url.Parse(address); err == nil && u.Query().Get("db") != "" {
			shown += "?db=" + u.Query().Get("db")
		}
	}
	return shown
}

// knownLedger is the file in the state folder that names the ledger of the last
// run or serve.
const knownLedger = "ledger.json"

// checkMove returns a warning when this state folder's last run or serve was on
// another ledger and the present one is empty, and remembers the present one.
// While that cannot be asked it remembers nothing, so that a later run finds out.
func (a *app) checkMove(ctx context.Context, s *spending, table *costs.Table) (warning string) {
	dir, err := a.state()
	name := a.ledgerName(table)
	if err != nil || name == "" {
		return ""
	}
	path := filepath.Join(dir, knownLedger)
	var known struct {
		Ledger string `json:"ledger"`
	}
	if text, err := privatefile.ReadFile(path, maxStateFile); err == nil {
		_ = json.Unmarshal(text, &known) // of an unreadable one nothing is known
	}
	if known.Ledger == name {
		return ""
	}
	if known.Ledger != "" {
		empty, err := s.empty(ctx, accounts(table))
		if err != nil {
			return ""
		}
		if empty {
			warning = fmt.Sprintf("the ledger %s is empty, and the last run here was on %s: what was spent there does not count any more; if that is a mistake, name the old one again",
				name, known.Ledger)
		}
	}
	known.Ledger = name
	if text, err := json.Marshal(known); err == nil {
		_ = privatefile.Replace(path, append(text, '\n'), false) // else it warns again, which is better than never
	}
	return warning
}

// empty reports whether a ledger holds nothing of some accounts.
func (s *spending) empty(ctx context.Context, accounts []string) (bool, error) {
	for _, account := range accounts {
		for _, err := range s.ledger.Entries(ctx, quota.Query{Account: account}) {
			return false, err
		}
	}
	return true, nil
}
