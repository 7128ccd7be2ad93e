// Package replica keeps a host's copy of the logs of accounts: append-only
// files of the batches that the processes of the host have received from a
// ledger, or granted without it.
//
// A process reads the copy when it starts, and then only what is new from the
// ledger. If the ledger has lost a log, or a part of it, the engine appends
// what the copy has and the log has not. While the ledger is down, the copy
// counts what an outage's allowance has granted.
//
// # Files
//
// Each account has a file for each day, HASH.DATE.log, by the host's date in
// UTC, in which processes append elements that each have a checksum. Appends
// need no lock: each is one write, and a batch that is kept twice counts once.
// A reader skips damaged bytes and goes on behind them. Each batch names the
// one before it, so a reader knows where the copy is complete, and the engine
// reads the rest from the ledger again. Only the owner of the folder can read
// the files, which are never synced: a power cut can lose the newest of them.
// Files that no window can see any more are renamed to HASH.DATE.past and kept
// for the rest of PastKeep: only Past reads them.
//
// # Failures
//
// The copy is worth less than the calls that it is a copy of. If it cannot be
// written, such as on a full disk, calls are still decided by the ledger; the
// failure is reported, and Err returns it until a write succeeds. What is not
// in the copy is lost if the ledger loses it too. Only Outage fails, since what
// it grants is recorded nowhere else.
package replica

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

// DefaultKeep is how long batches are kept without Options.Keep: a month, and a
// few days in which clocks may differ and calendar windows end.
const DefaultKeep = 35 * 24 * time.Hour

// Options are the options of Open. The zero value is the default.
type Options struct {
	// Ledger names the ledger, without a secret or a zero byte. Several ledgers
	// can share a folder if their names differ.
	Ledger string

	// Keep returns how far back the windows of an account see; with nil or a
	// result of 0 that is DefaultKeep. Batches are kept at least that long, and
	// up to two days longer. It is called concurrently.
	Keep func(account string) time.Duration

	// Report is called with what a person should know: damage in a file, once,
	// and that the copy cannot be written or read, at most once a minute. It is
	// called concurrently and must not call the Replica. Nil is a no-op.
	Report func(error)

	// Now is the host's clock, for tests; nil is time.Now.
	Now func() time.Time
}

// Replica is a host's copy of the logs of one ledger. It is safe for concurrent
// use, by all processes of the host.
type Replica struct {
	folder string
	o      Options

	mu       sync.Mutex
	accounts map[string]*accountCopy
	err      error     // of the latest use
	reported time.Time // when err was reported last
}

var _ engine.Replica = (*Replica)(nil)

// Open returns the copy in a folder. It creates the folder with mode 0700 if it
// does not exist. A folder that another user can write to, or has made, is an
// error that matches files.ErrUnsafe. A nil *Options is the default.
func Open(folder string, o *Options) (*Replica, error) {
	r := &Replica{accounts: map[string]*accountCopy{}}
	if o != nil {
		r.o = *o
	}
	if r.o.Now == nil {
		r.o.Now = time.Now
	}
	if r.o.Keep == nil {
		r.o.Keep = func(string) time.Duration { return DefaultKeep }
	}
	if r.o.Report == nil {
		r.o.Report = func(error) {}
	}
	var err error
	if r.folder, err = filepath.Abs(folder); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if err := files.MkdirAll(r.folder); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	return r, nil
}

// Load implements engine.Replica. It returns the error of yield, and no other
// one: what cannot be read is reported, and the engine reads it from the
// ledger. yield must not use the Replica for the same account.
func (r *Replica) Load(account string, yield func(epoch uint64, b *engine.Batch) error) error {
	a := r.account(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	var stopped error
	err := a.load(func(epoch uint64, b *engine.Batch) error {
		stopped = yield(epoch, b)
		return stopped
	})
	if err != nil && stopped == nil {
		r.failed("read", err)
	}
	return stopped
}

// Save implements engine.Replica. It appends the batches that are not in the
// copy yet. A failure is reported, and Err returns it.
func (r *Replica) Save(account string, known engine.Known, batches []engine.Batch) (isFork bool) {
	a := r.account(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	isFork, err := a.save(known, batches)
	if err != nil {
		r.failed("write", err)
		return isFork
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = nil
	return isFork
}

// Err returns why the copy could not be kept when it was used last, or nil.
func (r *Replica) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Newest returns up to which position the host knows the log of an account, and
// that batch's time by the ledger's clock. The epoch is 0 if it knows nothing.
func (r *Replica) Newest(account string) (epoch, position uint64, at time.Time, err error) {
	a := r.account(account)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.scanAll(); err != nil {
		return 0, 0, at, fmt.Errorf("replica: %w", err)
	}
	if a.chain.epoch != 0 {
		at = time.UnixMicro(a.chain.at).UTC()
	}
	return a.chain.epoch, a.chain.end(), at, nil
}

// Close closes the files that are open. A later use opens them again.
func (r *Replica) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []error
	for _, a := range r.accounts {
		a.mu.Lock()
		all = append(all, a.close())
		a.mu.Unlock()
	}
	return errors.Join(all...)
}

// account returns what is known of the files of an account.
func (r *Replica) account(name string) *accountCopy {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.accounts[name]
	if a == nil {
		a = &accountCopy{replica: r, name: name, files: filesOf(r.o.Ledger, name)}
		r.accounts[name] = a
	}
	return a
}

// horizon returns the time before which no window sees an account's records.
func (r *Replica) horizon(account string) int64 {
	return r.o.Now().Add(-cmp.Or(r.o.Keep(account), DefaultKeep)).UnixMicro()
}

func (r *Replica) today() string { return r.o.Now().UTC().Format(time.DateOnly) }

// failed keeps an error, and reports it at most once a minute.
func (r *Replica) failed(what string, err error) {
	err = fmt.Errorf("replica: cannot %s the copy of the ledger: %w; calls go on without it", what, err)
	r.mu.Lock()
	r.err = err
	now := r.o.Now()
	isDue := r.reported.IsZero() || now.Sub(r.reported) >= time.Minute || now.Before(r.reported)
	if isDue {
		r.reported = now
	}
	r.mu.Unlock()
	if isDue {
		r.o.Report(err)
	}
}
