package client

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// ConfigError is a mistake in the configuration outside costs.yaml, such as a
// ledger address with an unknown scheme or a folder that does not exist. Its
// text says what to change.
type ConfigError struct{ Err error }

// Error returns the text of Err.
func (e *ConfigError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ConfigError) Unwrap() error { return e.Err }

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Errorf(format, args...)}
}

// EmptyLedgerError says that the ledger is empty and another one was
// used before by the same costs.yaml. What was spent on that one no
// longer counts.
type EmptyLedgerError struct {
	Ledger string // as LedgerName returns it
	Before string // the ledger that this costs.yaml used before
}

// Error names both ledgers and says what to do.
func (e *EmptyLedgerError) Error() string {
	return fmt.Sprintf("the ledger %s is empty, and the one that this costs.yaml used before is %s: "+
		"what was spent there does not count any more; if that is a mistake, name the old one again",
		e.Ledger, e.Before)
}

// OutageError says that the ledger is down, or is back after an outage. It is
// reported at the first call that finds the ledger down, at the first call that
// is granted without it, and when the ledger answers again.
type OutageError struct {
	Ledger string
	Down   bool
	Since  time.Time // when any process with this state folder first found it down
	Until  time.Time // when this Client saw it recover; zero while it is down
	Reason string

	refused string // why no call is granted without the ledger; "" if some may be

	// Units is what this Client has granted without the ledger in this outage,
	// Total what it has in all outages.
	Units, Total quota.Units
}

// Error says that the ledger is down, since when and why, or that it is back.
func (e *OutageError) Error() string {
	if e.Down {
		calls := "calls go out within the allowance of when_ledger_down, and are recorded when it is back"
		if e.refused != "" {
			calls = "calls are refused until it is back, since " + e.refused
		}
		return fmt.Sprintf("the ledger %s has been down since %s: %s; %s", e.Ledger, human.Time(e.Since), e.Reason,
			calls)
	}
	text := fmt.Sprintf("the ledger %s is back after %s", e.Ledger, human.Duration(e.Until.Sub(e.Since)))
	if e.Units > 0 {
		text += fmt.Sprintf("; %s went out from here without it, now recorded", human.Count(e.Units, "unit"))
	}
	return text
}

// IsDown reports whether err says that the ledger is down: it cannot be
// reached, or it was lost, or an answer stays in doubt. A ledger that is busy
// or misconfigured is not down.
func IsDown(err error) bool {
	is := func(target error) bool { return errors.Is(err, target) }
	if is(quota.ErrLedgerBusy) || is(quota.ErrLedgerConfig) {
		return false
	}
	return is(quota.ErrLedgerDown) || is(quota.ErrInDoubt) || is(quota.ErrLedgerLost)
}

// DescribeOutage describes an outage: what outage.Error returns, with what all
// processes of this host have sent meanwhile and whether they may send more.
func (c *Client) DescribeOutage(outage *OutageError) string {
	if !outage.Down {
		return outage.Error()
	}
	shown := *outage
	if shown.refused == "" && shown.Units == 0 && c.isAllowanceUsed() {
		shown.refused = "the allowance of when_ledger_down is used up"
	}
	if all, err := c.Unrecorded(); err == nil && all > 0 {
		return fmt.Sprintf("%v (%s of this host not recorded yet)", &shown, human.Count(all, "unit"))
	}
	return shown.Error()
}

// isAllowanceUsed reports whether no account has any of its allowance left.
func (c *Client) isAllowanceUsed() bool {
	for _, u := range c.table.Upstreams() {
		most := quota.Units(0)
		for i := range u.Down {
			most = max(most, u.Down[i].Allow)
		}
		if used, _, err := c.grantedDown(u.Account); err != nil || used < most {
			return false
		}
	}
	return true
}

// NameLedger adds the name of its ledger to an error that does not have it:
// that of Redis names a server, and no database. An error of a file is about
// that file, such as a full disk to which an answer is written; of errors that
// are joined to it, each is named on its own.
func NameLedger(err error, name string) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return nameJoined(err, name)
	}
	where := strings.TrimPrefix(name, "sqlite:")
	if _, server, ok := strings.Cut(name, "://"); ok {
		where = strings.TrimSuffix(server, "/0")
	}
	if strings.Contains(err.Error(), where) {
		return err
	}
	return fmt.Errorf("%w (ledger %s)", err, name)
}

// nameJoined is NameLedger for each error of errors.Join. It returns other
// errors as they are.
func nameJoined(err error, name string) error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	parts := several.Unwrap()
	if err.Error() != errors.Join(parts...).Error() {
		return err
	}
	named := make([]error, len(parts))
	for i, part := range parts {
		named[i] = NameLedger(part, name)
	}
	return errors.Join(named...)
}
