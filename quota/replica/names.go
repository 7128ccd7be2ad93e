package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota/privatefile"
)

// A file is named NAME-HASH.DATE.log: what is readable of the account's name, a
// hash of the ledger's and the account's names, and the date in UTC on which it
// was created.
const suffix = ".log"

// filesOf returns how the names of an account's files begin.
func filesOf(ledger, account string) string {
	sum := sha256.Sum256(nameData(ledger, account))
	readable := strings.Map(func(r rune) rune {
		isPlain := r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !isPlain {
			return '_'
		}
		return r
	}, account[:min(len(account), 48)])
	return readable + "-" + hex.EncodeToString(sum[:8])
}

// dates returns the dates of the files whose names begin so, oldest first.
func (r *Replica) dates(files string) (dates []string, err error) {
	err = r.eachFile(func(name, date string) error {
		if name == files {
			dates = append(dates, date)
		}
		return nil
	})
	return dates, err
}

// eachFile yields how the name of each file begins, and its date, sorted.
func (r *Replica) eachFile(yield func(files, date string) error) error {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, isLog := strings.CutSuffix(entry.Name(), suffix)
		i := strings.LastIndexByte(name, '.')
		if !isLog || i < 0 {
			continue
		}
		if _, err := time.Parse(time.DateOnly, name[i+1:]); err != nil {
			continue
		}
		if err := yield(name[:i], name[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

// prune deletes the files that are too old. The newest one of those that begin
// before horizon is kept, so that what follows is known to be complete.
func (r *Replica) prune(files string, horizon int64) error {
	dates, err := r.dates(files)
	if err != nil {
		return err
	}
	isCovered := false // a later file is all of before horizon
	for _, date := range slices.Backward(dates) {
		if isCovered {
			path := filepath.Join(r.folder, files+"."+date+suffix)
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		start, err := time.Parse(time.DateOnly, date)
		isCovered = isCovered || err == nil && start.Add(24*time.Hour).UnixMicro() <= horizon
	}
	return nil
}

// Prune deletes the files of all accounts of the ledger that no window can see
// any more, by Options.Keep. Save does the same for its account once a day.
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
		last, isFound := "", false
		err := r.eachFile(func(files, date string) error {
			if files == last && isFound {
				return nil
			}
			ledger, account, err := ownerOf(filepath.Join(r.folder, files+"."+date+suffix))
			if err != nil {
				return err
			}
			last, isFound = files, account != ""
			if isFound && ledger == r.o.Ledger && !yield(account, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield("", err)
		}
	}
}

var errStop = errors.New("stop")

// ownerOf returns whose file it is; an empty account if the file does not say.
func ownerOf(path string) (ledger, account string, err error) {
	file, err := privatefile.OpenRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil // another process has deleted it
	}
	if err != nil {
		return "", "", err
	}
	defer file.Close()
	s := scanner{buf: make([]byte, 4<<10)}
	_, err = s.scan(file, 0, func(e *element) error {
		ok := false
		if e.kind == kindAccount {
			ledger, account, ok = accountIn(e.batch.Data)
		}
		if ok {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return ledger, account, err
}
