package replica

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/ration-dev/ration/internal/engine"
)

// element is one element of a file. All numbers are little-endian:
//
//	0   magic     4 bytes
//	4   checksum  4 bytes, CRC-32C of all that follows
//	8   size      4 bytes, of the data
//	12  kind      1 byte
//	13  gap       4 bytes, how far before position its predecessor is
//	17  epoch     8 bytes
//	25  position  8 bytes
//	33  at        8 bytes, microseconds since the Unix epoch
//	41  before    10 bytes, the tag of its predecessor
//	51  data
//
// A batch names its predecessor, so that a reader notices when batches are
// missing, or are of another log with the same epoch.
type element struct {
	kind   kind
	epoch  uint64
	gap    uint32
	before engine.Tag
	batch  engine.Batch
}

type kind byte

const (
	kindAccount kind = iota + 1 // whose file it is
	kindStart                   // the oldest batch that the log had
	kindNext                    // a batch that followed its predecessor in the log
	kindOutage                  // records of this host that no log has seen
)

const (
	magic      = "\xf1rR\x9a"
	headerSize = 51

	// maxData is the size of the largest data that a reader believes.
	maxData = 16 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// append appends the element to a buffer.
func (e *element) append(out []byte) []byte {
	start := len(out)
	out = append(out, magic...)
	out = append(out, 0, 0, 0, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(e.batch.Data)))
	out = append(out, byte(e.kind))
	out = binary.LittleEndian.AppendUint32(out, e.gap)
	out = binary.LittleEndian.AppendUint64(out, e.epoch)
	out = binary.LittleEndian.AppendUint64(out, e.batch.Position)
	out = binary.LittleEndian.AppendUint64(out, uint64(e.batch.At))
	out = append(out, e.before[:]...)
	out = append(out, e.batch.Data...)
	binary.LittleEndian.PutUint32(out[start+4:], checksum(out[start+8:]))
	return out
}

// parse reads the element at the beginning of b, whose data is part of b. It
// returns its size: more than len(b) if b ends too early, and 0 if there is
// none.
func (e *element) parse(b []byte) (size int) {
	if n := min(len(b), len(magic)); string(b[:n]) != magic[:n] {
		return 0
	}
	if len(b) < headerSize {
		return headerSize
	}
	data := binary.LittleEndian.Uint32(b[8:])
	e.kind = kind(b[12])
	if data > maxData || e.kind < kindAccount || e.kind > kindOutage {
		return 0
	}
	if size = headerSize + int(data); len(b) < size {
		return size
	}
	if checksum(b[8:size]) != binary.LittleEndian.Uint32(b[4:]) {
		return 0
	}
	e.gap = binary.LittleEndian.Uint32(b[13:])
	e.epoch = binary.LittleEndian.Uint64(b[17:])
	e.batch.Position = binary.LittleEndian.Uint64(b[25:])
	e.batch.At = int64(binary.LittleEndian.Uint64(b[33:]))
	e.before = engine.Tag(b[41:])
	e.batch.Data = b[headerSize:size:size]
	return size
}

// scanner reads the elements of files with one buffer.
type scanner struct {
	buf []byte

	file   io.ReaderAt
	at     int64  // the offset of rest
	rest   []byte // what was read and not yet parsed
	isDone bool   // the file has no more

	// damaged is called with the offset and the size of each part that was
	// skipped.
	damaged func(at, size int64)
}

const bufferSize = 256 << 10

// scan yields the elements of a file from an offset on, and returns the offset
// after the last one. What follows that is not an element yet: another process
// is writing it, or has died while it did. An element is valid until yield
// returns.
func (s *scanner) scan(file io.ReaderAt, from int64, yield func(*element) error) (end int64, err error) {
	s.file = file
	s.at = from
	s.rest = nil
	s.isDone = false
	var e element
	for end = from; ; {
		size := e.parse(s.rest)
		switch {
		case size > 0 && size <= len(s.rest):
			if s.at > end && s.damaged != nil {
				s.damaged(end, s.at-end)
			}
			if err := yield(&e); err != nil {
				return end, err
			}
			s.skip(size)
			end = s.at
			continue
		case size > 0 && !s.isDone:
			if err := s.fill(size); err != nil {
				return end, err
			}
			continue
		}
		if len(s.rest) == 0 {
			return end, nil
		}
		s.skip(1)
		i := bytes.IndexByte(s.rest, magic[0])
		if i < 0 {
			i = len(s.rest)
		}
		s.skip(i)
	}
}

func (s *scanner) skip(n int) {
	s.rest = s.rest[n:]
	s.at += int64(n)
}

// fill reads more of the file, until there are size bytes or no more.
func (s *scanner) fill(size int) error {
	if size > len(s.buf) {
		grown := make([]byte, max(size, bufferSize))
		s.rest = grown[:copy(grown, s.rest)]
		s.buf = grown
	} else {
		s.rest = s.buf[:copy(s.buf, s.rest)]
	}
	have := len(s.rest)
	n, err := s.file.ReadAt(s.buf[have:], s.at+int64(have))
	s.rest = s.buf[:have+n]
	if s.isDone = err == io.EOF; err != nil && !s.isDone {
		return fmt.Errorf("at %d: %w", s.at, err)
	}
	return nil
}
