package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota/internal/engine"
	"github.com/ration-dev/ration/quota/privatefile"
)

// account is what this process knows of the files of one account.
type account struct {
	replica *Replica
	name    string
	files   string // how their names begin

	mu      sync.Mutex
	days    []*day // oldest first
	today   *openDay
	chain   chain
	outages []engine.Batch // of about the trailing day, oldest first
	scanner scanner
	out     []byte
}

// day is one file and how far it was scanned.
type day struct {
	date string // as in its name
	end  int64
	torn int64 // the offset of a torn tail that was reported; -1: none
}

// openDay is the file that this process appends to.
type openDay struct {
	date   string
	info   os.FileInfo
	writer *os.File
	reader *os.File
}

func (d *openDay) close() error {
	if d == nil {
		return nil
	}
	return errors.Join(d.writer.Close(), d.reader.Close())
}

func (a *account) path(date string) string {
	return filepath.Join(a.replica.folder, a.files+"."+date+suffix)
}

// open opens the file of a date for appending. It notices if the file of a date
// before was removed, and then forgets what was in it.
func (a *account) open(date string) error {
	if a.today != nil {
		present, err := os.Lstat(a.path(a.today.date))
		isThere := err == nil && os.SameFile(present, a.today.info)
		if isThere && a.today.date == date {
			return nil
		}
		if !isThere {
			a.forget()
		}
		if err := a.close(); err != nil {
			return err
		}
	}
	today, err := openFile(a.path(date))
	if err != nil {
		return err
	}
	today.date = date
	if today.info.Size() == 0 {
		e := element{kind: kindAccount, batch: engine.Batch{Data: nameData(a.replica.o.Ledger, a.name)}}
		_, err = today.writer.Write(e.append(nil))
	}
	if err == nil {
		err = a.scanAll()
	}
	if err == nil {
		err = a.replica.prune(a.files, a.replica.horizon(a.name))
	}
	if err != nil {
		return errors.Join(err, today.close())
	}
	a.today = today
	return nil
}

func openFile(path string) (*openDay, error) {
	writer, err := privatefile.Append(path)
	if err != nil {
		return nil, err
	}
	d := &openDay{writer: writer}
	if d.reader, err = privatefile.OpenRead(path); err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	if d.info, err = writer.Stat(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// close closes what is open; a later append opens it again.
func (a *account) close() error {
	err := a.today.close()
	a.today = nil
	return err
}

// forget forgets the content of files, some of which are gone.
func (a *account) forget() { a.days, a.chain, a.outages = nil, chain{}, nil }

// scanAll scans what was appended to all files.
func (a *account) scanAll() error {
	dates, err := a.replica.dates(a.files)
	if err != nil {
		return err
	}
	var days []*day
	for _, date := range dates {
		d := a.day(date)
		days = append(days, d)
		file, err := privatefile.OpenRead(a.path(date))
		switch {
		case errors.Is(err, fs.ErrNotExist): // another process has deleted it
			continue
		case err != nil:
			return err
		}
		err = errors.Join(a.scan(d, file), a.checkTail(d, file), file.Close())
		if err != nil {
			return err
		}
	}
	a.days = days
	return nil
}

func (a *account) day(date string) *day {
	for _, d := range a.days {
		if d.date == date {
			return d
		}
	}
	return &day{date: date, torn: -1}
}

// scanToday scans what was appended to the open file.
func (a *account) scanToday() error {
	d := a.day(a.today.date)
	info, err := a.today.reader.Stat()
	if err != nil || info.Size() == d.end {
		return err
	}
	return a.scan(d, a.today.reader)
}

// scan scans what was appended to a file since it was scanned last.
func (a *account) scan(d *day, file *os.File) error {
	horizon := a.replica.horizon(a.name)
	a.scanner.damaged = func(at, size int64) {
		if at != d.torn {
			a.replica.report(fmt.Errorf("replica: %s: skipped %d damaged bytes at offset %d; the rest is used", file.Name(), size, at))
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
	if err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	return nil
}

// tailAge is how old what follows the last element is when no process can be
// writing it any more.
const tailAge = time.Minute

// checkTail reports a torn tail.
func (a *account) checkTail(d *day, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	isTorn := info.Size() > d.end && a.replica.o.Now().Sub(info.ModTime()) > tailAge
	if isTorn && d.torn != d.end {
		d.torn = d.end
		a.replica.report(fmt.Errorf("replica: %s: ignored a torn element of %d bytes at its end; the rest is used",
			file.Name(), info.Size()-d.end))
	}
	return nil
}

// load yields the batches of all files, as Replica.Load does.
func (a *account) load(yield func(uint64, *engine.Batch) error) (failed, stopped error) {
	if err := a.scanAll(); err != nil {
		return err, nil
	}
	w := walk{chain: &a.chain}
	horizon := a.replica.horizon(a.name)
	a.scanner.damaged = nil
	for _, d := range a.days {
		file, err := privatefile.OpenRead(a.path(d.date))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err, nil
		}
		_, err = a.scanner.scan(file, 0, func(e *element) error {
			epoch := uint64(0)
			switch {
			case w.next(e):
				epoch = e.epoch
			case e.kind == kindAccount, e.batch.At < horizon, a.chain.contains(e):
				return nil
			}
			stopped = yield(epoch, &e.batch)
			return stopped
		})
		if err = errors.Join(err, file.Close()); err != nil {
			if stopped != nil {
				return nil, stopped
			}
			return fmt.Errorf("%s: %w", file.Name(), err), nil
		}
	}
	return nil, nil
}

// save appends the batches that no process of the host has kept yet.
func (a *account) save(known engine.Known, batches []engine.Batch) error {
	if err := a.open(a.replica.today()); err != nil {
		return err
	}
	if err := a.scanToday(); err != nil {
		return err
	}
	a.out = a.out[:0]
	for i := range batches {
		e := elementOf(&known, &batches[i])
		if !a.chain.contains(&e) {
			a.out = e.append(a.out)
		}
		known.After, known.Tag = e.batch.Position, e.batch.Tag()
	}
	return a.write()
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
func (a *account) write() error {
	if len(a.out) == 0 {
		return nil
	}
	_, err := a.today.writer.Write(a.out)
	return err
}

// nameData is the data of an element that says whose file it is.
func nameData(ledger, account string) []byte {
	data := binary.AppendUvarint(nil, uint64(len(ledger)))
	return append(append(data, ledger...), account...)
}

// accountIn is the inverse of nameData.
func accountIn(data []byte) (ledger, account string, ok bool) {
	length, size := binary.Uvarint(data)
	if size <= 0 || length > uint64(len(data)-size) {
		return "", "", false
	}
	data = data[size:]
	return string(data[:length]), string(data[length:]), true
}
