package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/files"
)

// A file is named HASH.DATE.log, by a hash of the ledger's and the account's
// names, which may have any bytes, and the host's date in UTC. Its first
// element has the names.
const suffix = ".log"

// filesOf returns how the names of an account's files begin.
func filesOf(ledger, account string) string {
	sum := sha256.Sum256(nameData(ledger, account))
	return hex.EncodeToString(sum[:12])
}

// nameData is the data of the element that says whose file it is.
func nameData(ledger, account string) []byte { return []byte(ledger + "\x00" + account) }

// logs returns the names of the logs that begin and end so, sorted; "*" is any.
func (r *Replica) logs(files, suffix string) (names []string, err error) {
	entries, err := os.ReadDir(r.folder)
	for _, entry := range entries {
		if isLog, _ := path.Match(files+".????-??-??"+suffix, entry.Name()); isLog {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// prune retires the files that are too old. The newest one of those that begin
// before horizon is kept, so that what follows is known to be complete.
func (r *Replica) prune(files string, horizon int64) error {
	names, err := r.logs(files, suffix)
	if err != nil {
		return err
	}
	before := time.UnixMicro(horizon).UTC().Format(time.DateOnly) // all of an earlier date is before horizon
	for i := range len(names) - 1 {
		if names[i+1] >= files+"."+before+suffix {
			break
		}
		if err := r.retire(names[i]); err != nil {
			return err
		}
	}
	return r.deletePast(files)
}

// Prune retires the files of all accounts of the ledger that no window can see
// any more, by Options.Keep, and deletes them after PastKeep. Save does the
// same for its account once a day.
func (r *Replica) Prune() error {
	for account, err := range r.Accounts() {
		if err != nil {
			return err
		}
		if err := r.prune(filesOf(r.o.Ledger, account), r.horizon(account)); err != nil {
			return err
		}
	}
	return nil
}

// Accounts yields the accounts of the ledger that have files, in no particular
// order. It stops after an error.
func (r *Replica) Accounts() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names, err := r.logs("*", suffix)
		seen := map[string]bool{}
		for _, name := range names {
			var ledger, account string
			if ledger, account, err = ownerOf(filepath.Join(r.folder, name)); err != nil {
				break
			}
			if account == "" || ledger != r.o.Ledger || seen[account] {
				continue
			}
			if seen[account] = true; !yield(account, nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

var errStop = errors.New("stop")

// ownerOf returns whose file it is; an empty account if the file does not say.
func ownerOf(path string) (ledger, account string, err error) {
	file, err := files.OpenRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil // another process has deleted it
	}
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	s := scanner{buf: make([]byte, 4<<10)}
	_, err = s.scan(file, 0, func(e *element) error {
		if e.kind != kindAccount {
			return nil
		}
		ledger, account, _ = strings.Cut(string(e.batch.Data), "\x00")
		return errStop
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return ledger, account, err
}
