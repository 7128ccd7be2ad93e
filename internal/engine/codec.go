package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A batch is packed as follows; numbers are unsigned varints.
//
//	tag       the client (6 bytes) and the low 4 bytes of the sequence number of
//	          the first record that has neither its own id nor its own time
//	version   1 byte
//	labels    how many, then each as a mask of the fields that it has and, for
//	          each of these, its length and text
//	records   until the end: a head (kind, and flags of what follows), and fields
//
// Records without an id of their own continue the sequence of the batch. Each
// grant and note takes a timestamp; another record has that of the one before.
const version = 1

// What follows the head of a record.
const (
	hasRef   = 0x10
	hasUntil = 0x20
	hasCalls = 0x40 // unless 1 for a grant, a settle or a ticket, and 0 for the others
	hasMore  = 0x80 // a second byte of flags
)

const (
	hasID = 1 << iota
	hasTime
	hasMeasures
	hasName
	hasOwner
	hasText
	hasValue
)

// ErrUnreadable is the error of a batch that this version cannot read.
var ErrUnreadable = errors.New("quota: unreadable record in the ledger; upgrade ration on this host")

// defaultCalls is what a record counts as calls unless it says otherwise.
func (k Kind) defaultCalls() int64 {
	switch k {
	case KindGrant, KindSettle, KindTicket:
		return 1
	}
	return 0
}

// Pack packs records into a batch that begins with the tag of first, the id of
// the next record of the client. Records whose ID is zero get the following
// ids, and Pack sets these.
func Pack(first ID, records []*Record) []byte {
	p := packer{first: first, next: first.Seq}
	tag := newTag(first)
	p.out = append(make([]byte, 0, 32+24*len(records)), tag[:]...)
	p.out = append(p.out, version)
	p.labels(records)
	for i, r := range records {
		p.record(r, p.index[i])
	}
	return p.out
}

type packer struct {
	first ID
	next  uint64
	out   []byte
	index []uint32 // of each record's labels
}

func (p *packer) number(n uint64)  { p.out = binary.AppendUvarint(p.out, n) }
func (p *packer) text(text string) { p.number(uint64(len(text))); p.out = append(p.out, text...) }

func (p *packer) id(id ID) {
	if id.Client == p.first.Client {
		p.number(0)
	} else {
		p.number(id.Client)
	}
	p.number(id.Seq)
}

// labels writes the different labels of records. Most batches have few.
func (p *packer) labels(records []*Record) {
	different := make([]*Labels, 0, 8)
	p.index = make([]uint32, len(records))
	var known map[Labels]uint32 // once there are many
	for i, r := range records {
		if i > 0 && r.Labels == records[i-1].Labels {
			p.index[i] = p.index[i-1]
			continue
		}
		index, ok := known[r.Labels]
		if len(known) == 0 {
			n := slices.IndexFunc(different, func(l *Labels) bool { return *l == r.Labels })
			index, ok = uint32(max(n, 0)), n >= 0
		}
		if !ok {
			index = uint32(len(different))
			different = append(different, &r.Labels)
			known = indexLabels(known, different)
		}
		p.index[i] = index
	}
	p.number(uint64(len(different)))
	for _, l := range different {
		p.out = l.append(p.out)
	}
}

// indexLabels adds the last labels to an index, once there are enough for it to
// be faster than a search.
func indexLabels(index map[Labels]uint32, all []*Labels) map[Labels]uint32 {
	if len(all) <= 8 {
		return nil
	}
	if index == nil {
		index = map[Labels]uint32{}
		for i, l := range all {
			index[*l] = uint32(i)
		}
	}
	index[*all[len(all)-1]] = uint32(len(all) - 1)
	return index
}

// append packs labels: equal labels have equal bytes.
func (l *Labels) append(out []byte) []byte {
	fields := [...]string{l.Method, l.Lane, l.Job, l.Region, l.Host, l.Key}
	mask := byte(0)
	for i, field := range fields {
		if field != "" {
			mask |= 1 << i
		}
	}
	out = append(out, mask)
	for _, field := range fields {
		if field != "" {
			out = binary.AppendUvarint(out, uint64(len(field)))
			out = append(out, field...)
		}
	}
	return out
}

func (p *packer) record(r *Record, labels uint32) {
	if r.ID == (ID{}) {
		r.ID = ID{p.first.Client, p.next}
	}
	head, more := byte(r.Kind), byte(0)
	flag := func(set bool, flags *byte, bit byte) {
		if set {
			*flags |= bit
		}
	}
	isNext := r.ID == ID{p.first.Client, p.next}
	if isNext {
		p.next++
	}
	flag(!isNext, &more, hasID)
	flag(r.Kept, &more, hasTime)
	flag(len(r.Amounts.More) > 0, &more, hasMeasures)
	flag(r.Name != "", &more, hasName)
	flag(r.Owner != "", &more, hasOwner)
	flag(r.Text != "", &more, hasText)
	flag(r.Value != 0, &more, hasValue)
	flag(r.Ref != ID{}, &head, hasRef)
	flag(r.Until != 0, &head, hasUntil)
	flag(r.Amounts.Calls != r.Kind.defaultCalls(), &head, hasCalls)
	flag(more != 0, &head, hasMore)
	p.out = append(p.out, head)
	if more != 0 {
		p.out = append(p.out, more)
	}
	p.number(uint64(labels))
	p.number(uint64(r.Amounts.Units))
	p.fields(r, head, more)
}

func (p *packer) fields(r *Record, head, more byte) {
	if head&hasRef != 0 {
		p.id(r.Ref)
	}
	if head&hasUntil != 0 {
		p.number(uint64(r.Until))
	}
	if head&hasCalls != 0 {
		p.number(uint64(r.Amounts.Calls))
	}
	if more&hasID != 0 {
		p.id(r.ID)
	}
	if more&hasTime != 0 {
		p.number(uint64(r.At))
	}
	if more&hasMeasures != 0 {
		p.number(uint64(len(r.Amounts.More)))
		for _, m := range r.Amounts.More {
			p.text(m.Measure)
			p.number(uint64(m.N))
		}
	}
	for i, text := range [...]string{r.Name, r.Owner, r.Text} {
		if more&(hasName<<i) != 0 {
			p.text(text)
		}
	}
	if more&hasValue != 0 {
		p.number(uint64(r.Value))
	}
}

// unpacker reads a batch record by record, without allocating for most of them,
// and without setting pointers, which is slow while garbage is collected.
type unpacker struct {
	batch  *Batch
	first  ID
	next   uint64
	stamps int64 // grants and notes so far, which take a timestamp each
	data   []byte
	at     int      // what is read next of data
	labels []uint32 // of the fold's labels, by index in the batch
	bad    bool
}

// unpack begins to read a batch; intern returns a number for packed labels.
func (u *unpacker) unpack(b *Batch, intern func([]byte) uint32) error {
	*u = unpacker{batch: b, data: b.Data, at: TagSize + 1, labels: u.labels[:0]}
	if len(b.Data) <= TagSize || b.Data[TagSize] != version {
		return ErrUnreadable
	}
	var client [8]byte
	copy(client[2:], b.Data)
	u.first = ID{binary.BigEndian.Uint64(client[:]), uint64(binary.BigEndian.Uint32(b.Data[6:]))}
	u.next = u.first.Seq
	count := u.number()
	for range count {
		start := u.at
		for mask := u.byte(); mask != 0; mask &= mask - 1 {
			u.bytes()
		}
		if u.bad {
			return u.err()
		}
		u.labels = append(u.labels, intern(u.data[start:u.at]))
	}
	return u.err()
}

func (u *unpacker) err() error {
	if u.bad {
		return fmt.Errorf("%w: position %d", ErrUnreadable, u.batch.Position)
	}
	return nil
}

// fail ends the batch, which is malformed.
func (u *unpacker) fail() { u.bad, u.at = true, len(u.data) }

func (u *unpacker) byte() byte {
	if u.at == len(u.data) {
		u.bad = true
		return 0
	}
	u.at++
	return u.data[u.at-1]
}

func (u *unpacker) number() uint64 {
	n, size := binary.Uvarint(u.data[u.at:])
	if size <= 0 {
		u.fail()
		return 0
	}
	u.at += size
	return n
}

func (u *unpacker) bytes() []byte {
	n := u.number()
	if n > uint64(len(u.data)-u.at) {
		u.fail()
		return nil
	}
	u.at += int(n)
	return u.data[u.at-int(n) : u.at]
}

func (u *unpacker) id() ID {
	id := ID{u.number(), u.number()}
	if id.Client == 0 {
		id.Client = u.first.Client
	}
	return id
}

// record reads the next record into r, all but its Labels, whose number it
// returns. ok is false at the end of the batch.
func (u *unpacker) record(r *Record) (labels uint32, ok bool, err error) {
	if u.at == len(u.data) {
		return 0, false, u.err()
	}
	head, more := u.byte(), byte(0)
	if head&hasMore != 0 {
		more = u.byte()
	}
	*r = Record{Kind: Kind(head & 0x0f)}
	if r.At = u.batch.At + u.stamps; r.Kind.isEntry() {
		u.stamps++
	} else if u.stamps > 0 {
		r.At--
	}
	index := u.number()
	if index >= uint64(len(u.labels)) {
		u.bad = true
		return 0, false, u.err()
	}
	r.Amounts.Units = int64(u.number())
	u.fields(r, head, more)
	if more&hasID == 0 {
		r.ID = ID{u.first.Client, u.next}
		u.next++
	}
	return u.labels[index], !u.bad, u.err()
}

func (u *unpacker) fields(r *Record, head, more byte) {
	if head&hasRef != 0 {
		r.Ref = u.id()
	}
	if head&hasUntil != 0 {
		r.Until = int64(u.number())
	}
	r.Amounts.Calls = r.Kind.defaultCalls()
	if head&hasCalls != 0 {
		r.Amounts.Calls = int64(u.number())
	}
	if more&hasID != 0 {
		r.ID = u.id()
	}
	if more&hasTime != 0 {
		r.At, r.Kept = int64(u.number()), true
	}
	if more&hasMeasures != 0 {
		for n := min(u.number(), MaxMeasures); n > 0; n-- {
			r.Amounts.More = append(r.Amounts.More, Amount{string(u.bytes()), int64(u.number())})
		}
	}
	for i, text := range [...]*string{&r.Name, &r.Owner, &r.Text} {
		if more&(hasName<<i) != 0 {
			*text = string(u.bytes())
		}
	}
	if more&hasValue != 0 {
		r.Value = int64(u.number())
	}
}

// unpackLabels is the inverse of Labels.append.
func unpackLabels(packed []byte) (l Labels) {
	u := unpacker{data: packed}
	mask := u.byte()
	for i, field := range [...]*string{&l.Method, &l.Lane, &l.Job, &l.Region, &l.Host, &l.Key} {
		if mask&(1<<i) != 0 {
			*field = string(u.bytes())
		}
	}
	return l
}

// Unpack returns the records of a batch.
func Unpack(b *Batch) ([]Record, error) {
	var packed [][]byte
	var u unpacker
	err := u.unpack(b, func(labels []byte) uint32 {
		packed = append(packed, labels)
		return uint32(len(packed) - 1)
	})
	var records []Record
	for err == nil {
		var r Record
		labels, ok, failed := u.record(&r)
		if !ok {
			return records, failed
		}
		r.Labels = unpackLabels(packed[labels])
		records = append(records, r)
	}
	return nil, err
}
