package engine

import (
	"slices"
)

// fold is the state of an account: a function of the set of its records. Any
// order of arrival and any repetition of records give the same state, except
// that a clock record corrects what is before it in the log. It is not safe for
// concurrent use.
type fold struct {
	known    Known // what has been received
	gen      uint64
	totals   [MaxTotals]int64
	first    uint64 // the oldest position in the log
	newest   int64  // the newest timestamp
	isFresh  bool   // nothing was received yet
	marks    []batchMark
	maxStamp int64

	clients    map[uint64]*clientRecords
	clientIDs  []uint64
	lastClient *clientRecords // that was looked up last
	labelIDs   map[string]uint32
	lastLabels uint32 // that were looked up last
	packed     []byte // memory for packed labels

	labels   []foldLabels
	names    []string // of notes; the first is empty
	measures []string // named ones, in the order of columns

	entries []entry
	base    uint32    // the number of entries[0]
	trimmed int64     // what is older was dropped here
	columns [][]int64 // of named measures, as long as entries or shorter
	byKey   map[string]*keyRecords
	leases  map[uint32]int64 // ends of leases that were not settled, by entry

	series    map[string]*series
	shared    []*series // those of all keys, and of records without a key
	covered   uint32    // rises with each new one of these
	meters    map[meterID]*gauge
	forgotten int // how often all meters were

	tried  int       // the newest entries, which are not in the log yet
	trying []*series // those that count them

	voids    map[ID]voided  // by the id that never was
	settles  map[ID]*Record // of grants that have not arrived
	control  controls
	clocks   []clockRecord
	isMixed  bool           // positions are of several logs
	lack     map[ID]*Record // records that the log is not known to have: of an outage, or of its former life
	lookFor  Tag            // of the batch that was appended last
	foundAt  uint64         // where it is in the log; 0 if it was not received
	unpacked []uint32       // memory for the labels of a batch
}

// keyRecords are the entries of one key and the series that count them alone.
type keyRecords struct {
	entries []uint32
	series  []*series
}

// entry is a grant or a note.
type entry struct {
	at        int64 // when it counts
	units     int64
	settledAt int64 // when it was settled last; 0: never
	id        shortID
	settled   shortID // of that settle
	labels    uint32
	calls     int32
	position  uint32 // of its batch; 0 if it was not received
	kind      Kind
	isVoid    bool
	isKept    bool  // it carries its own time
	name      uint8 // of a note, in fold.names
}

// voided says when a void was written.
type voided struct {
	id ID
	at int64
}

// shortID is an ID whose client is a number in fold.clientIDs.
type shortID struct{ client, seq uint32 }

// foldLabels are different labels and the series that cover them.
type foldLabels struct {
	Labels
	key     *keyRecords // nil without a Key
	series  []*series
	covered uint32 // as in fold, when series was computed
	ofKey   int    // how many series the key had then
}

// batchMark is the first stamp of a batch.
type batchMark struct {
	position uint64
	at       int64
}

func newFold() *fold {
	return &fold{
		isFresh: true, base: 1, first: 1, names: []string{""},
		clients: map[uint64]*clientRecords{}, labelIDs: map[string]uint32{}, byKey: map[string]*keyRecords{},
		leases: map[uint32]int64{}, series: map[string]*series{}, meters: map[meterID]*gauge{},
		voids: map[ID]voided{}, settles: map[ID]*Record{}, control: newControls(),
		lack: map[ID]*Record{},
	}
}

// receive folds the batches of an answer and takes over its head.
func (f *fold) receive(t *Tail) error {
	for i := range t.Batches {
		if err := f.batch(&t.Batches[i]); err != nil {
			return err
		}
	}
	if t.More {
		f.reserve(t)
	} else {
		f.gen = t.Gen
		f.totals = t.Totals
		f.first = t.First
		f.newest = t.Newest
	}
	f.known.Epoch = t.Epoch
	f.isFresh = false
	return nil
}

// reserve makes room for what is left to read of a log, by what was read of it:
// to grow step by step takes four times the memory, and longer.
func (f *fold) reserve(t *Tail) {
	read, left := f.known.After+1-t.First, t.Position-f.known.After
	if f.known.After < t.First || left < read/2 {
		return
	}
	entries := uint64(len(f.entries)) * left / read
	f.entries = slices.Grow(f.entries, int(min(entries+entries/32, maxReserve)))
	f.marks = slices.Grow(f.marks, int(min(left+left/32, maxReserve)))
}

const maxReserve = 4 << 20

// batch folds one batch. Those of a log arrive in order. One at position 0 is
// in no log yet.
func (f *fold) batch(b *Batch) error {
	if b.Position != 0 && b.Position <= f.known.After {
		return nil // received before
	}
	u := unpacker{labels: f.unpacked}
	if err := u.unpack(b, f.labelsOf); err != nil {
		return err
	}
	f.unpacked = u.labels
	var r Record
	for {
		labels, ok, err := u.record(&r)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if len(f.lack) > 0 {
			delete(f.lack, r.ID)
		}
		f.record(&r, labels, b.Position)
	}
	if b.Position != 0 {
		f.mark(b)
	}
	return nil
}

// mark notes that a batch was received.
func (f *fold) mark(b *Batch) {
	f.known.After, f.known.Tag = b.Position, b.Tag()
	f.marks = append(f.marks, batchMark{b.Position, b.At})
	if f.known.Tag == f.lookFor {
		f.foundAt = b.Position
	}
}

// numberOf returns the number of labels.
func (f *fold) numberOf(l *Labels) uint32 {
	if int(f.lastLabels) >= len(f.labels) || f.labels[f.lastLabels].Labels != *l {
		f.packed = l.append(f.packed[:0])
		f.lastLabels = f.labelsOf(f.packed)
	}
	return f.lastLabels
}

// labelsOf returns the number of packed labels.
func (f *fold) labelsOf(packed []byte) uint32 {
	if id, ok := f.labelIDs[string(packed)]; ok {
		return id
	}
	id := uint32(len(f.labels))
	l := foldLabels{Labels: unpackLabels(packed)}
	if l.Key != "" {
		if l.key = f.byKey[l.Key]; l.key == nil {
			l.key = &keyRecords{}
			f.byKey[l.Key] = l.key
		}
	}
	f.labels = append(f.labels, l)
	f.labelIDs[string(packed)] = id
	return id
}

// record folds one record. labels are the number of its Labels.
func (f *fold) record(r *Record, labels uint32, position uint64) {
	for _, c := range f.clocks { // of which most logs have none
		c.apply(r, position)
	}
	f.maxStamp = max(f.maxStamp, r.At)
	switch r.Kind {
	case KindGrant, KindNote:
		f.entry(r, labels, position)
	case KindSettle:
		f.settle(r)
	case KindVoid:
		f.void(r)
	case KindClock:
		if !f.isMixed { // else it cannot be known what was before it
			f.correct(r, position)
		}
	default:
		r.Labels = f.labels[labels].Labels
		f.control.add(r, position)
	}
}

// entry folds a grant or a note.
func (f *fold) entry(r *Record, labels uint32, position uint64) {
	if n, ok := f.find(r.ID); ok {
		if e := f.at(n); e.position == 0 {
			e.position = uint32(position)
		}
		f.moveLater(n, r.At)
		return
	}
	_, isVoid := f.voids[r.ID]
	e := entry{at: r.At, units: r.Amounts.Units, id: f.short(r.ID), labels: labels,
		calls: int32(r.Amounts.Calls), position: uint32(position), kind: r.Kind, isVoid: isVoid, isKept: r.Kept,
		name: f.nameOf(r.Name)}
	n := f.base + uint32(len(f.entries))
	f.entries = append(f.entries, e)
	f.setMore(n, r.Amounts.More)
	f.index(r.ID, n)
	if key := f.labels[labels].key; key != nil {
		key.entries = append(key.entries, n)
	}
	if r.Until > r.At {
		f.leases[n] = r.Until
	}
	if r.Ref != (ID{}) {
		f.control.serve(r.Ref)
	}
	if !isVoid {
		for _, s := range f.seriesOf(labels) {
			f.addTo(s, n)
		}
	}
	if len(f.settles) == 0 {
		return
	}
	if settled := f.settles[r.ID]; settled != nil {
		delete(f.settles, r.ID)
		f.settle(settled)
	}
}

// nameOf returns the number of a note's name; there are few.
func (f *fold) nameOf(name string) uint8 {
	i := slices.Index(f.names, name)
	if i < 0 && len(f.names) < 255 {
		i = len(f.names)
		f.names = append(f.names, name)
	}
	return uint8(max(i, 0))
}

// addTo adds an entry to a series that covers it.
func (f *fold) addTo(s *series, n uint32) {
	at, amount, ok := f.counts(s.coverage, n)
	if !ok {
		return
	}
	if f.tried > 0 {
		if s.tried == 0 {
			f.trying = append(f.trying, s)
		}
		s.tried++
	}
	s.add(point{at, amount, n})
}

// counts returns when and what an entry counts in a series that covers it. In a
// series of leases it counts until the end of its lease, if it has one.
func (f *fold) counts(c *Coverage, n uint32) (at, amount int64, ok bool) {
	e := f.at(n)
	at, amount = e.at, f.amount(n, c.Measure)
	if c.inFlight {
		at, ok = f.leases[n]
		if e.settledAt != 0 {
			amount = 0
		}
		return at, amount, ok
	}
	return at, amount, true
}

// at returns an entry by its number.
func (f *fold) at(n uint32) *entry { return &f.entries[n-f.base] }

// settle folds what a grant really cost.
func (f *fold) settle(r *Record) {
	n, ok := f.find(r.Ref)
	if !ok {
		if before := f.settles[r.Ref]; before == nil || r.supersedes(before.At, before.ID) {
			kept := *r
			f.settles[r.Ref] = &kept
		}
		return
	}
	e := f.at(n)
	if e.settledAt != 0 && !r.supersedes(e.settledAt, f.long(e.settled)) {
		return
	}
	e.settledAt, e.settled = r.At, f.short(r.ID)
	e.units, e.calls = r.Amounts.Units, int32(r.Amounts.Calls)
	f.setMore(n, r.Amounts.More)
	f.changed(n)
}

// supersedes reports whether a settle counts instead of an earlier one.
func (r *Record) supersedes(at int64, id ID) bool {
	if r.At != at {
		return r.At > at
	}
	return id.before(r.ID)
}

// changed brings the amount of an entry into the series that cover it.
func (f *fold) changed(n uint32) {
	e := f.at(n)
	for _, s := range f.seriesOf(e.labels) {
		at, amount, ok := f.counts(s.coverage, n)
		if e.isVoid {
			amount = 0
		}
		if ok {
			s.change(at, n, amount)
		}
	}
}

// void folds that a record was never appended.
func (f *fold) void(r *Record) {
	f.voids[r.Ref] = voided{r.ID, r.At}
	if n, ok := f.find(r.Ref); ok && !f.at(n).isVoid {
		f.at(n).isVoid = true
		f.changed(n)
	}
	f.control.serve(r.Ref)
}

// moveLater lets an entry count from the later of two times: one that was
// restored by hosts that disagree.
func (f *fold) moveLater(n uint32, at int64) {
	if e := f.at(n); at > e.at && e.isKept {
		e.at = at
		f.rebuild()
	}
}
