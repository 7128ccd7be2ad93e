package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

// past ends the names of files that no window can see any more. Nothing reads
// them but Past, so a process starts as fast as without them.
const past = ".past"

// PastKeep is how long files are kept for Past: eight days.
const PastKeep = 8 * 24 * time.Hour

// retire renames a file that no window can see any more.
func (r *Replica) retire(name string) error {
	path := filepath.Join(r.folder, name)
	err := os.Rename(path, strings.TrimSuffix(path, suffix)+past)
	if errors.Is(err, fs.ErrNotExist) { // another process has done so
		return nil
	}
	return err
}

// deletePast deletes the files that are older than PastKeep.
func (r *Replica) deletePast(files string) error {
	names, err := r.logs(files, past)
	oldest := files + "." + r.o.Now().Add(-PastKeep).UTC().Format(time.DateOnly)
	for _, name := range names {
		if err == nil && name < oldest {
			err = os.Remove(filepath.Join(r.folder, name))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// Past implements engine.Replica. Clocks may differ by a day.
func (r *Replica) Past(account string, since, until int64) (days []engine.PastDay, err error) {
	files := filesOf(r.o.Ledger, account)
	retired, err := r.logs(files, past)
	names, failed := r.logs(files, suffix)
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	date := func(micros int64, days int) string {
		return files + "." + time.UnixMicro(micros).UTC().AddDate(0, 0, days).Format(time.DateOnly)
	}
	until = min(until, r.o.Now().UnixMicro())
	first, last := date(since, -1), date(until, 1)+suffix
	for _, name := range slices.Concat(retired, names) {
		if name >= first && name <= last {
			days = append(days, pastDay(filepath.Join(r.folder, name)))
		}
	}
	return days, nil
}

// pastDay returns what yields the batches of a file, whole or damaged.
func pastDay(path string) engine.PastDay {
	return func(yield func(*engine.Batch) error) error {
		file, err := files.OpenRead(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process has just retired or deleted it
		}
		if err != nil {
			return err
		}
		defer file.Close()
		var s scanner
		_, err = s.scan(file, 0, func(e *element) error {
			if e.kind == kindAccount {
				return nil
			}
			return yield(&e.batch)
		})
		return err
	}
}
