package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/privatefile"
)

// tailBytes is how much of a file is read first to find its newest grant.
const tailBytes = 64 << 10

// newestRecord is the newest grant or restoration that any process of the host
// has appended, or the entry of another host that a refusal found; before the
// first of them, a refusal, by a cooldown too, which tells at least the epoch.
type newestRecord struct {
	record

	// spansLives says that grants of two lives of the log were read, and no
	// restoration after them. The host may not have restored what it knows of
	// the earlier life: calls in flight are asked for before it knows an entry.
	spansLives bool
}

// update takes a record into account that was appended after all before.
func (n *newestRecord) update(r *record) {
	isGrant := r.kind == granted && r.key == ""
	isOfAnotherLife := isGrant && n.isEntry() && n.epoch != r.epoch
	n.spansLives = r.kind != restored && (n.spansLives || isOfAnotherLife)
	switch {
	case isGrant && n.isBefore(r), r.kind == restored:
		n.record = *r
	case r.kind == refused && r.id != (quota.ID{}):
		n.record = record{kind: refused, at: r.at + r.skew, epoch: r.epoch, id: r.id}
	case r.isOfRefusal() && !n.isEntry():
		n.record = record{kind: refused, epoch: r.epoch}
	case r.kind == stamped && n.at > r.at: // its stamp in the log is not known
		n.record = record{kind: refused, epoch: n.epoch}
	}
}

// isOfRefusal reports whether a record says in which life a call was refused.
func (r *record) isOfRefusal() bool { return r.kind == refused || r.kind == cooled && r.epoch != 0 }

// isBefore reports whether a grant is the newest entry that is known.
func (n *newestRecord) isBefore(r *record) bool { return r.at >= n.at || !n.isEntry() }

// cameBefore reports whether the log's newest entry, by its stamp, came to the
// log after the one that is known. Then no copy of the log has it without
// the other.
func (n *newestRecord) cameBefore(newest int64) bool { return newest > n.logNewest() || !n.isEntry() }

// logNewest returns the log's newest stamp when the entry came to it, or a
// later one.
func (n *newestRecord) logNewest() int64 {
	if n.kind != restored {
		return n.at
	}
	for _, u := range n.heard {
		if u.budget == repairedSince {
			return n.at + int64(u.used)
		}
	}
	return n.at + int64(n.calls)
}

// isEntry reports whether the ledger has an entry of it.
func (n *newestRecord) isEntry() bool {
	return n.kind == granted || n.kind == restored || n.id != (quota.ID{})
}

// known returns what the ledger must hold.
func (n *newestRecord) known(account string) (known quota.Receipt) {
	switch {
	case n.isEntry():
		known = quota.Receipt{Account: account, ID: n.id, At: decide.Time(n.at), Epoch: n.epoch}
	case n.epoch != 0:
		known = quota.Receipt{Account: account, Epoch: n.epoch}
	}
	return known
}

// readNewest reads the files for the newest grant: until two have an entry,
// since the host's clock may have been set back over the start of an hour.
func (f *files) readNewest() (newest newestRecord, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	present := f.present()
	reader, err := privatefile.NewReader()
	if err != nil {
		return newest, err
	}
	f.owes.Store(f.isOwed())
	switch f.seenHour {
	case 0: // nothing was read yet
	case present: // its file was replaced, and may have held some
		f.changes.Add(1)
	default:
		f.changes.Add(f.changesSince(reader, f.seenHour, f.seen) + f.changesSince(reader, present, 0))
	}
	f.settles.Add(1) // what was read of them is not counted
	f.seenHour = present
	f.seen = 0
	f.own = 0
	hours, failed := f.hours()
	files := 0 // that have an entry
	for _, hour := range slices.Backward(hours) {
		found, seen, err := f.newestIn(reader, hour)
		if err != nil {
			return newest, err
		}
		if hour == present {
			f.seen = seen
		}
		isFirst := !newest.isEntry() && found.kind != 0
		isOfAnotherLife := newest.isEntry() && found.isEntry() && found.epoch != newest.epoch
		// What was restored in between is seen by isStated.
		spansLives := isOfAnotherLife || newest.spansLives || found.spansLives
		wasSetBack := found.isEntry() && found.epoch == newest.epoch && newest.cameBefore(found.logNewest()) // the host's clock
		if isFirst || wasSetBack {
			newest = found
		}
		newest.spansLives = spansLives
		if found.isEntry() && hour <= present {
			files++
		}
		if files == 2 {
			break
		}
	}
	if newest.isEntry() {
		return newest, nil
	}
	return newest, failed
}

// newestIn reads the file of an hour, and returns how much of it is whole.
func (f *files) newestIn(reader *privatefile.Reader, hour int64) (newest newestRecord, seen int64, err error) {
	for n := int64(tailBytes); !newest.isEntry(); n *= 8 {
		data, from, err := readFrom(reader, f.path(hour), -n)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return newest, seen, err
		}
		read, err := each(data, newest.update)
		if err != nil {
			return newest, seen, err
		}
		seen = from + int64(read)
		if from == 0 {
			break
		}
	}
	return newest, seen, nil
}

// scanBytes is how much of a file scan reads at once: more than a record.
const scanBytes = 1 << 20

// scan calls do with the records of one kind that were appended in the hours
// since a time. It keeps nothing of the others.
func (f *files) scan(since time.Time, want kind, do func(*record)) error {
	buf := make([]byte, scanBytes)
	return f.eachHour(func(reader *privatefile.Reader, hour int64) error {
		if hour < f.hourOf(since) {
			return nil
		}
		return scanFile(reader, f.path(hour), buf, want, do)
	})
}

func scanFile(reader *privatefile.Reader, path string, buf []byte, want kind, do func(*record)) error {
	file, err := reader.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for from, kept := int64(0), 0; ; {
		n, err := file.ReadAt(buf[kept:], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		from += int64(n)
		read, failed := eachOf(buf[:kept+n], want, do)
		if failed != nil || err != nil {
			return failed
		}
		if read == 0 { // no whole record in all of these bytes
			read = len(buf) - headBytes - mostBody - sumBytes
		}
		kept = copy(buf, buf[read:])
	}
}

// checkEvery is how often the file that is appended to is looked for in
// its place.
const checkEvery = time.Second

// updateNewest brings the newest grant up to date with what other processes
// have appended since. It reports false if readNewest must be called instead.
// If there is nothing, it costs one system call, and those of present.
func (f *files) updateNewest(newest *newestRecord) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seenHour != f.present() {
		return false
	}
	size, isThere := f.size()
	switch {
	case !isThere:
		return false
	case size == f.seen+f.own:
		f.seen, f.own = size, 0
		return true
	}
	reader, err := privatefile.NewReader()
	if err != nil {
		return false
	}
	data, _, err := readFrom(reader, f.path(f.seenHour), f.seen)
	if err != nil {
		return false
	}
	changes := uint64(0)
	read, err := each(data, func(r *record) { newest.update(r); changes += r.changes(); f.settles.Add(r.settles()) })
	if err != nil {
		return false
	}
	f.seen, f.own = f.seen+int64(read), 0
	f.owes.Store(f.isOwed())
	f.changes.Add(changes)
	return true
}

// changes returns 1 for a record that withdraw looks for.
func (r *record) changes() uint64 {
	if r.kind == owed || r.kind == restored {
		return 1
	}
	return 0
}

// settles returns 1 for a record that says what a call costs now.
func (r *record) settles() uint64 {
	if r.kind == settled {
		return 1
	}
	return 0
}

// changesSince returns how many records that withdraw looks for the file of an
// hour has behind a place; perhaps more.
func (f *files) changesSince(reader *privatefile.Reader, hour, from int64) (changes uint64) {
	data, _, err := readFrom(reader, f.path(hour), from)
	if err == nil {
		_, err = each(data, func(r *record) { changes += r.changes() })
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		changes++
	}
	return changes
}

// size returns the size of the file that updateNewest reads. It reports false
// if that was deleted, or another has taken its place.
func (f *files) size() (size int64, isThere bool) {
	if f.file == nil || f.hour != f.seenHour {
		info, err := os.Stat(f.path(f.seenHour))
		if errors.Is(err, fs.ErrNotExist) {
			return 0, f.seen+f.own == 0
		}
		return sizeOf(info), err == nil
	}
	size, err := f.file.Seek(0, io.SeekEnd) // a third of what Stat costs; appends go to the end anyway
	if since := f.now().Sub(f.checked); err == nil && (since < 0 || since >= checkEvery) {
		info, statErr := f.file.Stat()
		present, pathErr := os.Stat(f.path(f.hour))
		f.checked = f.now()
		if statErr != nil || pathErr != nil || !os.SameFile(info, present) {
			_ = f.file.Close()
			f.file = nil
			return 0, false
		}
	}
	return size, err == nil
}

func sizeOf(info fs.FileInfo) int64 {
	if info == nil {
		return 0
	}
	return info.Size()
}
