package sqliteledger

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota/internal/filelock"
)

//go:embed migrate.sql
var migration string

//go:embed migrate_sums.sql
var migrationToSums string

// migrationPatience is how long a process waits for another that migrates the
// file: some two seconds for a million entries.
const migrationPatience = 30 * time.Second

// migrate gives a file of an older version the tables of the present one, in
// one transaction: whoever dies in the middle leaves the old file. It takes its
// turn among the processes that have the file open.
func (l *Ledger) migrate(c *conn) error {
	if l.lock == nil { // else the caller has the turn
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
	switch version := integer(c.value("PRAGMA user_version")); version { // the present one if another process was quicker
	case 1:
		c.script(migration)
		c.script(fmt.Sprint("UPDATE lists SET since = ", l.now().UnixMicro()))
		fallthrough
	case 2:
		c.script("ALTER TABLE cooldowns ADD COLUMN length INTEGER NOT NULL DEFAULT 0")
		fallthrough
	case 3:
		c.script(migrationToSums)
	}
	c.script("COMMIT")
	return c.err
}
