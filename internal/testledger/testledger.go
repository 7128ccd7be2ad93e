// Package testledger opens logs for tests.
package testledger

import (
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// Memory returns the log of a new ledger in memory.
func Memory(o *memledger.Options) quota.Log { return quota.NewLog(memledger.Open(o), nil) }

// SQLite returns the log of the ledger in a file.
func SQLite(path string, o *sqliteledger.Options) (quota.Log, error) {
	l, err := sqliteledger.Open(path, o)
	if err != nil {
		return nil, err
	}
	return quota.NewLog(l, nil), nil
}

// Redis returns the log of the ledger that a URL names.
func Redis(url string, o *redisledger.Options) (quota.Log, error) {
	l, err := redisledger.Open(url, o)
	if err != nil {
		return nil, err
	}
	return quota.NewLog(l, nil), nil
}
