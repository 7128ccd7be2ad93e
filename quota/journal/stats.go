package journal

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/ration-dev/ration/quota"
)

// Stats describe the journal of one account.
type Stats struct {
	Unrecorded    quota.Units // as Ledger.Unrecorded returns
	Bytes         int64       // the size of its files on this host
	Unwritten     bool        // this process's last access to its files failed
	Restores      uint64      // how often this process has restored the ledger
	RestoredCalls uint64      // the calls that the ledger lacked then
}

// restores counts what one process has restored of an account.
type restores struct{ times, calls atomic.Uint64 }

// Stats returns what is known of an account's journal. It writes nothing and
// creates nothing. With an error it returns what is known in spite of it.
func (l *Ledger) Stats(account string) (Stats, error) {
	a := l.account(account)
	units, err := l.Unrecorded(account)
	a.mu.Lock()
	s := Stats{Unrecorded: units, Unwritten: a.failed, Restores: a.restores.times.Load(), RestoredCalls: a.restores.calls.Load()}
	a.mu.Unlock()
	hours, failed := a.files.hours()
	for _, hour := range hours {
		if info, err := os.Stat(a.files.path(hour)); err == nil { // another process may have removed it
			s.Bytes += info.Size()
		}
	}
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("journal of %s: %w", account, failed))
	}
	return s, err
}
