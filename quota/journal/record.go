package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/ration-dev/ration/quota"
)

// kind is what a record of the journal says.
type kind byte

const (
	granted  kind = 'g' // by the ledger
	noted    kind = 'i' // the same, of a quota.EntryNote; decoded as granted
	amended  kind = 'a' // the same, of a quota.EntryCorrection
	refused  kind = 'n' // what a budget held, by a refusal of the ledger or by its Standings
	owed     kind = 'o' // within the allowance; the ledger does not have it yet; heard is of moment.record
	dated    kind = 'p' // a call within the allowance was restored, with this timestamp
	doubted  kind = 'd' // sent to the ledger, whose answer was lost: it may be granted
	settled  kind = 's' // the units and calls of an earlier grant
	restored kind = 'r' // the ledger has all records before this one; see RestoredError.record
	lacked   kind = 'l' // a quota.Gap
	cooled   kind = 'c' // a cooldown; its method is the budget and its job the reason
	warmed   kind = 'w' // a cooldown was cleared
	givenUp  kind = 'u' // a restoration left out a grant, in the life of the log that the epoch names
	stamped  kind = 't' // the log was restamped at this time; what its file says earlier of later times is of this one
)

// record is one record of a journal. Times are microseconds on the ledger's
// clock. Of a restoration, skew leads from at to the time on the host's clock,
// calls from at to the log's newest timestamp, as of a date, units are what the
// ledger lacked, and heard has the figures of a Repair.
type record struct {
	kind         kind
	entry        quota.EntryKind // of a grant
	at           int64           // of a grant its timestamp, of a doubted call when it was given up, of a cooldown its end, of a refusal the time of heard, of a gap To
	skew         int64           // how far the host's clock was ahead of the ledger's; of a gap, From; of a refusal, from at to the stamp of id; of a cooldown, the hour of the host's clock
	epoch        uint64
	id           quota.ID    // of a refusal, that of the log's newest entry, or zero
	units, calls quota.Units // of a refusal, units is the limit; of a gap, Until, or 0
	key          string
	method       string
	caller       quota.Caller
	heard        []use

	hour int64 // whose file it was read from; not stored
}

// use is how much the window of a budget held right after a grant, or at
// a refusal.
type use struct {
	budget string
	used   quota.Units
}

// A record is stored as a first byte, the length of its body, the body, and a
// checksum of the body. A reader that finds no whole record at a place looks
// for the next firstByte: a record may be torn if the disk was full or the
// power failed.
const (
	firstByte = 0xA7
	headBytes = 3
	sumBytes  = 4
	mostBody  = 1 << 15
)

var sums = crc32.MakeTable(crc32.Castagnoli)

// encode appends a record.
func (r *record) encode(b []byte) []byte {
	start := len(b)
	kind := r.kind
	switch {
	case kind == granted && r.entry == quota.EntryNote:
		kind = noted
	case kind == granted && r.entry == quota.EntryCorrection:
		kind = amended
	}
	b = append(b, firstByte, 0, 0, byte(kind))
	b = binary.AppendVarint(b, r.at)
	b = binary.AppendVarint(b, r.skew)
	b = binary.LittleEndian.AppendUint64(b, r.epoch)
	b = binary.AppendUvarint(b, r.id.Client)
	b = binary.AppendUvarint(b, r.id.Seq)
	b = binary.AppendUvarint(b, uint64(r.units))
	b = binary.AppendUvarint(b, uint64(r.calls))
	for _, word := range []string{r.key, r.method, r.caller.Lane, r.caller.Job, r.caller.Region} {
		b = append(binary.AppendUvarint(b, uint64(len(word))), word...)
	}
	for _, u := range r.heard {
		b = append(binary.AppendUvarint(b, uint64(len(u.budget))), u.budget...)
		b = binary.AppendUvarint(b, uint64(u.used))
	}
	body := b[start+headBytes:]
	binary.LittleEndian.PutUint16(b[start+1:], uint16(len(body)))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, sums))
}

// errNewer means that a journal holds records that this version cannot read. It
// must not restore or grant by the others alone.
var errNewer = fmt.Errorf("%w: the journal of this host was written by a newer version of ration: use that one, or another folder (RATION_JOURNAL)", quota.ErrLedgerConfig)

// isKnown reports whether this version knows what a record of the kind says.
func (k kind) isKnown() bool {
	switch k {
	case granted, noted, amended, refused, owed, dated, doubted, settled, restored, lacked, cooled, warmed, givenUp, stamped:
		return true
	}
	return false
}

// whole returns the body of the record that data begins with, and the record's
// length. The length is 0 if data does not begin with a whole record.
func whole(data []byte) (body []byte, n int) {
	if len(data) < headBytes || data[0] != firstByte {
		return nil, 0
	}
	length := int(binary.LittleEndian.Uint16(data[1:]))
	n = headBytes + length + sumBytes
	if length == 0 || length > mostBody || len(data) < n {
		return nil, 0
	}
	body = data[headBytes : headBytes+length]
	if binary.LittleEndian.Uint32(data[headBytes+length:]) != crc32.Checksum(body, sums) {
		return nil, 0
	}
	return body, n
}

// decode returns the record with a body. That of a newer version has kind 0.
func decode(body []byte) (r record) {
	d := decoder{rest: body}
	r.kind = kind(d.bytes(1)[0])
	r.at, r.skew = d.varint(), d.varint()
	r.epoch = binary.LittleEndian.Uint64(d.bytes(8))
	r.id = quota.ID{Client: d.uvarint(), Seq: d.uvarint()}
	r.units, r.calls = quota.Units(d.uvarint()), quota.Units(d.uvarint())
	r.key, r.method = d.text(), d.text()
	r.caller = quota.Caller{Lane: d.text(), Job: d.text(), Region: d.text()}
	for len(d.rest) > 0 && !d.bad {
		r.heard = append(r.heard, use{d.text(), quota.Units(d.uvarint())})
	}
	if d.bad || !r.kind.isKnown() {
		return record{}
	}
	switch r.kind {
	case noted:
		r.kind, r.entry = granted, quota.EntryNote
	case amended:
		r.kind, r.entry = granted, quota.EntryCorrection
	}
	return r
}

// decoder reads a record's body. What is missing makes it bad.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return make([]byte, min(n, 8))
	}
	head := d.rest[:n]
	d.rest = d.rest[n:]
	return head
}

func (d *decoder) text() string { return string(d.bytes(d.uvarint())) }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.skip(n)
	return v
}

func (d *decoder) skip(n int) {
	if n <= 0 {
		d.bad, n = true, len(d.rest)
	}
	d.rest = d.rest[n:]
}

// each calls f with every whole record in data, and returns how many bytes were
// read: to the end of the last whole record, if the rest may still grow into
// one. It ends with errNewer at a record that this version does not know.
func each(data []byte, f func(*record)) (read int, err error) { return eachOf(data, 0, f) }

// eachOf is each for the records of one kind, or for all if that is 0. It
// decodes no others.
func eachOf(data []byte, want kind, f func(*record)) (read int, err error) {
	for at := 0; at < len(data); {
		body, n := whole(data[at:])
		if n == 0 {
			at++
			continue
		}
		switch k := kind(body[0]); {
		case !k.isKnown():
			return read, errNewer
		case want == 0 || k == want:
			r := decode(body)
			if r.kind == 0 {
				return read, errNewer
			}
			f(&r)
		}
		at += n
		read = at
	}
	return read, nil
}
