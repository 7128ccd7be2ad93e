package sqliteledger

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
)

//go:embed migrate.sql
var migration string

//go:embed migrate_sums.sql
var migrationToSums string

//go:embed migrate_epochs.sql
var migrationToEpochs string

//go:embed migrate_limits.sql
var migrationToLimits string

// migrationPatience is how long a process waits for another to migrate the
// file, which takes about two seconds for a million entries.
const migrationPatience = 30 * time.Second

// migrate upgrades the tables of an older version in one transaction. It locks
// the file against the processes that have it open.
func (l *Ledger) migrate(c *conn) error {
	if l.lock == nil { // else the caller holds the lock
		lock, err := filelock.Open(l.lockPath())
		if err != nil {
			return err
		}
		defer lock.Close()
		ctx, cancel := context.WithTimeoutCause(context.Background(), migrationPatience, errBusy)
		defer cancel()
		if err := lock.Lock(ctx); err != nil {
			return err
		}
		defer lock.Unlock()
	}
	if c.script("BEGIN IMMEDIATE"); c.err != nil {
		return c.err
	}
	switch version := integer(c.queryValue("PRAGMA user_version")); version { // the present one if another process has migrated
	case 1:
		c.script(migration)
		c.script(fmt.Sprint("UPDATE lists SET since = ", l.now().UnixMicro()))
		fallthrough
	case 2:
		c.script("ALTER TABLE cooldowns ADD COLUMN length INTEGER NOT NULL DEFAULT 0")
		fallthrough
	case 3:
		c.script(migrationToSums)
		fallthrough
	case 4:
		c.script(migrationToEpochs)
		fallthrough
	case 5:
		c.script(migrationToLimits)
	}
	c.script("COMMIT")
	return c.err
}
