package replica_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota/memledger"
)

const accountCopy = "my-project"

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// fixture is a folder that several processes use.
type replicaFixture struct {
	*testing.T
	folder  string
	now     time.Time
	keep    time.Duration
	reports []string
}

func newFixture(t *testing.T) *replicaFixture {
	return &replicaFixture{T: t, folder: filepath.Join(t.TempDir(), "replica"), now: noon}
}

// open opens the folder as another process does.
func (f *replicaFixture) open() *replica.Replica {
	f.Helper()
	r, err := replica.Open(f.folder, &replica.Options{
		Now:    func() time.Time { return f.now },
		Keep:   func(string) time.Duration { return f.keep },
		Report: func(err error) { f.reports = append(f.reports, err.Error()) },
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	return r
}

// past returns the positions of what the copy has from a time on.
func (f *replicaFixture) past(r *replica.Replica, since time.Time) string {
	f.Helper()
	days, err := r.Past(accountCopy, since.UnixMicro(), engine.Never)
	if err != nil {
		f.Fatal(err)
	}
	var positions []string
	for _, day := range days {
		if err := day(func(b *engine.Batch) error {
			positions = append(positions, fmt.Sprint(b.Position))
			return nil
		}); err != nil {
			f.Fatal(err)
		}
	}
	return strings.Join(positions, " ")
}

// files returns the paths of the folder's logs.
func (f *replicaFixture) files() []string {
	f.Helper()
	files, err := filepath.Glob(filepath.Join(f.folder, "*.log"))
	if err != nil {
		f.Fatal(err)
	}
	return files
}

func (f *replicaFixture) size() (size int64) {
	for _, path := range f.files() {
		info, err := os.Stat(path)
		if err != nil {
			f.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// load returns what a process loads, as words: EPOCH/POSITION=UNITS.
func (f *replicaFixture) load(r *replica.Replica) string {
	f.Helper()
	var words []string
	err := r.Load(accountCopy, func(epoch uint64, b *engine.Batch) error {
		records, err := engine.Unpack(b)
		if err == nil {
			words = append(words, fmt.Sprintf("%d/%d=%d", epoch, b.Position, records[0].Amounts.Units))
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return strings.Join(words, " ")
}

// log is a log of an epoch. Its batches hold one grant each.
type replicaLog struct {
	epoch   uint64
	batches []engine.Batch
}

// add adds a batch for each amount.
func (l *replicaLog) add(units ...int64) *replicaLog {
	for _, u := range units {
		id := engine.ID{Client: engine.NewClient(), Seq: 1}
		n := len(l.batches)
		grant := &engine.Record{Kind: engine.KindGrant, ID: id, Amounts: engine.Amounts{Units: u, Calls: 1}}
		data := engine.Pack(id, []*engine.Record{grant})
		l.batches = append(l.batches, engine.Batch{Position: uint64(n + 1), At: noon.UnixMicro() + int64(n),
			Data: data})
	}
	return l
}

// known is what a process knows that has received the log up to a position.
func (l *replicaLog) known(position int) engine.Known {
	k := engine.Known{Epoch: l.epoch, After: uint64(position)}
	if position > 0 {
		k.Tag = l.batches[position-1].Tag()
	}
	return k
}

// save saves the batches after one position up to another.
func (l *replicaLog) save(r *replica.Replica, after, to int) {
	r.Save(accountCopy, l.known(after), l.batches[after:to])
}

func (f *replicaFixture) want(got, want string) {
	f.Helper()
	if got != want {
		f.Errorf("loaded %s\nwant   %s", got, want)
	}
}

func TestAProcessLoadsWhatAllHaveSavedOnce(t *testing.T) {
	f := newFixture(t)
	one, two := f.open(), f.open()
	l := (&replicaLog{epoch: 7}).add(1, 2, 3, 4, 5)
	l.save(one, 0, 2)
	size := f.size()
	l.save(two, 0, 2)
	if f.size() != size {
		t.Errorf("a second process has written %d bytes of batches that were there", f.size()-size)
	}
	l.save(two, 2, 4)
	l.save(one, 2, 5)
	f.want(f.load(f.open()), "7/1=1 7/2=2 7/3=3 7/4=4 7/5=5")
	epoch, position, at, err := one.Newest(accountCopy)
	if err != nil || epoch != 7 || position != 5 || at.UnixMicro() != l.batches[4].At {
		t.Errorf("the newest batch is %d of %d at %v, %v", position, epoch, at, err)
	}
	if len(f.reports) > 0 {
		t.Error(f.reports)
	}
}

func TestProcessesSaveAtTheSameTime(t *testing.T) {
	f := newFixture(t)
	ledger := memledger.Open(nil)
	var wg sync.WaitGroup
	for range 6 {
		r, err := replica.Open(f.folder, &replica.Options{Report: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		a := engine.New(ledger, &engine.Options{Replica: r}).Account(accountCopy)
		for range 2 {
			wg.Go(func() {
				for range 50 {
					_, err := a.Spend(t.Context(), &engine.Request{Amounts: engine.Amounts{Units: 1, Calls: 1}})
					if err != nil {
						t.Error(err)
					}
					if _, _, _, err := r.Newest(accountCopy); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	f.now = time.Now()
	tail, err := ledger.Read(t.Context(), accountCopy, &engine.Read{})
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	err = f.open().Load(accountCopy, func(epoch uint64, b *engine.Batch) error {
		if epoch != tail.Epoch || b.Position != next {
			return fmt.Errorf("position %d of epoch %d, want %d of %d", b.Position, epoch, next, tail.Epoch)
		}
		next++
		return nil
	})
	if err != nil || next != tail.Position+1 || len(f.reports) > 0 {
		t.Errorf("%d of %d positions: %v, reports %q", next-1, tail.Position, err, f.reports)
	}
}

func TestDamageIsSkippedAndReportedOnce(t *testing.T) {
	f := newFixture(t)
	l := (&replicaLog{epoch: 7}).add(1, 2, 3, 4, 5)
	r := f.open()
	ends := []int64{}
	for i := range 5 {
		l.save(r, i, i+1)
		ends = append(ends, f.size())
	}
	path := f.files()[0]
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := ends[1]; at < ends[2]; at++ { // in the third batch
		damaged := slices.Clone(whole)
		damaged[at] ^= 0x55
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		f.reports = nil
		after := f.open()
		f.want(f.load(after), "7/1=1 7/2=2 0/4=4 0/5=5")
		f.want(f.load(after), "7/1=1 7/2=2 0/4=4 0/5=5")
		if len(f.reports) != 1 || !strings.Contains(f.reports[0], "skipped") {
			t.Fatalf("damage at %d: reports %q", at, f.reports)
		}
		l.save(after, 2, 5) // what it then reads from the ledger
		f.want(f.load(f.open()), "7/1=1 7/2=2 7/3=3 7/4=4 7/5=5")
	}
}

func TestATornTailIsIgnored(t *testing.T) {
	f := newFixture(t)
	l := (&replicaLog{epoch: 7}).add(1, 2, 3)
	r := f.open()
	l.save(r, 0, 2)
	before := f.size()
	l.save(r, 2, 3)
	path, after := f.files()[0], f.size()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := before + 1; size < after; size++ {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		long := noon.Add(-time.Hour)
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		f.reports = nil
		r := f.open()
		f.want(f.load(r), "7/1=1 7/2=2")
		l.save(r, 2, 3)
		f.want(f.load(r), "7/1=1 7/2=2 7/3=3")
		if len(f.reports) != 1 || !strings.Contains(f.reports[0], "torn") {
			t.Fatalf("%d of %d bytes: reports %q", size-before, after-before, f.reports)
		}
	}
}

func TestBatchesAfterMissingOnesAreNotOfTheLog(t *testing.T) {
	f := newFixture(t)
	l := (&replicaLog{epoch: 7}).add(1, 2, 3, 4)
	r := f.open()
	l.save(r, 0, 1)
	l.save(r, 2, 3) // 2 could not be written
	f.want(f.load(f.open()), "7/1=1 0/3=3")
	l.save(r, 1, 4) // another process has received it
	f.want(f.load(f.open()), "7/1=1 7/2=2 7/3=3 7/4=4")

	f = newFixture(t)
	l.save(f.open(), 2, 4) // the copy begins in the middle of the log
	f.want(f.load(f.open()), "0/3=3 0/4=4")
	f.now, f.keep = noon.Add(48*time.Hour), 24*time.Hour // all before is too old to count
	f.want(f.load(f.open()), "7/3=3 7/4=4")
}

func TestAFormerLogIsNotOfTheLog(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	old := (&replicaLog{epoch: 7}).add(1, 2, 3)
	old.save(r, 0, 3)
	(&replicaLog{epoch: 8}).add(10, 20).save(r, 0, 2)
	f.want(f.load(f.open()), "0/1=1 0/2=2 0/3=3 8/1=10 8/2=20")

	f = newFixture(t)
	r = f.open()
	old.save(r, 0, 3)
	fork := &replicaLog{epoch: 7, batches: slices.Clone(old.batches[:1])}
	fork.add(12, 13, 14).save(r, 0, 4)
	f.want(f.load(f.open()), "7/1=1 0/2=2 0/3=3 7/2=12 7/3=13 7/4=14")
	old.add(5).save(r, 3, 4) // by a process that has not noticed
	f.want(f.load(f.open()), "7/1=1 0/2=2 0/3=3 7/2=12 7/3=13 7/4=14 0/4=5")
}

func TestTrimmedPositionsAreNotMissing(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	l := (&replicaLog{epoch: 7}).add(1, 2, 3, 4, 5, 6)
	l.save(r, 0, 2)
	r.Save(accountCopy, l.known(2), l.batches[4:5]) // the ledger has no 3 and 4 any more
	l.save(r, 5, 6)
	f.want(f.load(f.open()), "7/1=1 7/2=2 7/5=5 7/6=6")
}

func TestAccountsMayHaveAnyNames(t *testing.T) {
	f := newFixture(t)
	names := []string{"a", "A", "a/b", "../../etc", "a.2026-11-28.log", "\x00\xff", strings.Repeat("long", 100),
		"ä ö"}
	for _, name := range names {
		l := (&replicaLog{epoch: 7}).add(1)
		f.open().Save(name, l.known(0), l.batches)
	}
	other, err := replica.Open(f.folder, &replica.Options{Ledger: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, err := range other.Accounts() {
		t.Errorf("another ledger has %q, %v", name, err)
	}
	var found []string
	for name, err := range f.open().Accounts() {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, name)
	}
	slices.Sort(found)
	slices.Sort(names)
	if !slices.Equal(found, names) {
		t.Errorf("accounts %q, want %q", found, names)
	}
	if len(f.files()) != len(names) || len(f.reports) > 0 {
		t.Errorf("files %q, reports %q", f.files(), f.reports)
	}
}
