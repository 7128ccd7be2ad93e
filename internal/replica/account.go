package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
)

// account is what this process knows of the files of one account.
type accountCopy struct {
	replica *Replica
	name    string
	files   string // how their names begin

	mu       sync.Mutex
	days     []*day   // oldest first
	today    *os.File // to which this process appends; nil before the first Save
	path     string   // of today
	chain    chain
	isPruned bool           // files that were scanned are gone, perhaps those where chain begins
	outages  []engine.Batch // of about the trailing day, oldest first
	scanner  scanner
	out      []byte
}

// day is one file and how far it was scanned.
type day struct {
	path string
	end  int64
	torn int64 // the offset of a torn tail that was reported; -1: none
}

// open opens the file of a date for appending. It notices if the file of a date
// before was removed, and then forgets what was in it.
func (a *accountCopy) open(date string) error {
	path := filepath.Join(a.replica.folder, a.files+"."+date+suffix)
	if a.today != nil {
		isThere := isAt(a.today, a.path)
		if isThere && a.path == path {
			return nil
		}
		if !isThere {
			a.forget()
		}
		if err := a.close(); err != nil {
			return err
		}
	}
	file, err := files.Append(path)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() == 0 {
		e := element{kind: kindAccount, batch: engine.Batch{Data: nameData(a.replica.o.Ledger, a.name)}}
		_, err = file.Write(e.append(nil))
	}
	if err == nil {
		err = a.scanAll()
	}
	if err == nil {
		err = a.replica.prune(a.files, a.replica.horizon(a.name))
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	a.today, a.path = file, path
	return nil
}

// forget forgets what was in the files, so that they are scanned anew.
func (a *accountCopy) forget() {
	a.days = nil
	a.isPruned = false
	a.chain = chain{}
	a.outages = nil
}

// isAt reports whether an open file is the one at a path.
func isAt(file *os.File, path string) bool {
	open, err := file.Stat()
	present, failed := os.Lstat(path)
	return err == nil && failed == nil && os.SameFile(open, present)
}

// close closes what is open; a later append opens it again.
func (a *accountCopy) close() error {
	if a.today == nil {
		return nil
	}
	err := a.today.Close()
	a.today = nil
	return err
}

// scanAll scans what was appended to all files.
func (a *accountCopy) scanAll() error {
	names, err := a.replica.logs(a.files, suffix)
	if err != nil {
		return err
	}
	days := make([]*day, len(names))
	for i, name := range names {
		days[i] = a.day(filepath.Join(a.replica.folder, name))
	}
	for _, d := range a.days {
		a.isPruned = a.isPruned || !slices.Contains(days, d)
	}
	a.days = days
	return a.eachFile(func(d *day, file *os.File) error {
		return errors.Join(a.scan(d, file), a.checkTail(d, file))
	})
}

// eachFile opens the files of all days in turn, oldest first, but for those
// that another process has deleted.
func (a *accountCopy) eachFile(use func(*day, *os.File) error) error {
	for _, d := range a.days {
		file, err := files.OpenRead(d.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(use(d, file), file.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *accountCopy) day(path string) *day {
	for _, d := range a.days {
		if d.path == path {
			return d
		}
	}
	return &day{path: path, torn: -1}
}

// scan scans what was appended to a file since it was scanned last.
func (a *accountCopy) scan(d *day, file *os.File) error {
	horizon := a.replica.horizon(a.name)
	a.scanner.damaged = func(at, size int64) {
		if at != d.torn {
			a.replica.o.Report(fmt.Errorf("replica: %s: skipped %d damaged bytes at offset %d; the rest is used",
				file.Name(), size, at))
		}
	}
	end, err := a.scanner.scan(file, d.end, func(e *element) error {
		switch e.kind {
		case kindStart, kindNext:
			a.chain.add(e, horizon)
		case kindOutage:
			kept := e.batch
			kept.Data = append([]byte(nil), kept.Data...)
			a.outages = append(a.outages, kept)
		}
		return nil
	})
	d.end = end
	return err
}

// tailAge is how old what follows the last element is when no process can be
// writing it any more.
const tailAge = time.Minute

// checkTail reports a torn tail.
func (a *accountCopy) checkTail(d *day, file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() <= d.end {
		return err
	}
	if isNew := d.torn != d.end; !isNew || a.replica.o.Now().Sub(info.ModTime()) < tailAge {
		return err
	}
	d.torn = d.end
	a.replica.o.Report(fmt.Errorf("replica: %s: ignored a torn element of %d bytes at its end; the rest is used",
		file.Name(), info.Size()-d.end))
	return nil
}

// load yields the batches of all files, as Replica.Load does. If files were
// pruned, it finds out first where the chain begins now.
func (a *accountCopy) load(yield func(uint64, *engine.Batch) error) error {
	if err := a.scanAll(); err != nil {
		return err
	}
	if a.isPruned {
		a.forget()
		if err := a.scanAll(); err != nil {
			return err
		}
	}
	w := walk{chain: &a.chain}
	horizon := a.replica.horizon(a.name)
	return a.eachFile(func(_ *day, file *os.File) error {
		a.scanner.damaged = nil
		_, err := a.scanner.scan(file, 0, func(e *element) error {
			switch {
			case w.next(e):
				return yield(e.epoch, &e.batch)
			case e.kind == kindAccount, e.batch.At < horizon, a.chain.contains(e):
				return nil
			}
			return yield(0, &e.batch)
		})
		return err
	})
}

// save appends the batches that no process of the host has kept yet. It reports
// whether the host knew other ones in their place.
func (a *accountCopy) save(known engine.Known, batches []engine.Batch) (isFork bool, err error) {
	if err := a.open(a.replica.today()); err != nil {
		return false, err
	}
	if err := a.scan(a.day(a.path), a.today); err != nil {
		return false, err
	}
	a.out = a.out[:0]
	for i := range batches {
		e := elementOf(&known, &batches[i])
		if !a.chain.contains(&e) {
			isFork = isFork || a.chain.isForkedBy(&e)
			a.out = e.append(a.out)
		}
		known.After, known.Tag = e.batch.Position, e.batch.Tag()
	}
	if len(a.out) == 0 {
		return false, nil
	}
	return isFork, a.write()
}

// elementOf returns the element of a batch that follows what known says.
func elementOf(known *engine.Known, b *engine.Batch) element {
	e := element{kind: kindStart, epoch: known.Epoch, batch: *b}
	if known.After != 0 {
		e.kind, e.before = kindNext, known.Tag
		e.gap = uint32(min(b.Position-known.After, math.MaxUint32))
	}
	return e
}

// write appends a.out to the open file in one piece. What other processes
// append at the same time comes before or after it.
func (a *accountCopy) write() error {
	_, err := a.today.Write(a.out)
	return err
}
