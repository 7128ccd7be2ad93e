package engine

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// ID identifies one record, for ever. A client uses each Seq once.
type ID struct {
	Client uint64 // from NewClient
	Seq    uint64 // less than 1<<32
}

// String returns the id as ration log shows it.
func (id ID) String() string { return fmt.Sprintf("%012x-%d", id.Client, id.Seq) }

// before orders ids, for records with equal timestamps.
func (id ID) before(other ID) bool {
	if id.Client != other.Client {
		return id.Client < other.Client
	}
	return id.Seq < other.Seq
}

// MaxKey is the most bytes in a key.
const MaxKey = 256

// CheckKey returns an ErrBadCall if a key is too long, or not text.
func CheckKey(key string) error {
	if len(key) > MaxKey || !utf8.ValidString(key) {
		return fmt.Errorf("%w: a key of %d bytes; give text of at most %d", ErrBadCall, len(key), MaxKey)
	}
	return nil
}

// NewClient returns a random client id of 48 bits, never 0.
func NewClient() uint64 {
	var b [8]byte
	for {
		rand.Read(b[2:]) // crypto/rand never fails since Go 1.24
		if id := binary.BigEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// NewEpoch returns a random epoch, never 0. It has 53 bits, so that it is exact
// as a floating-point number too.
func NewEpoch() uint64 {
	var b [8]byte
	for {
		rand.Read(b[1:])
		if epoch := binary.BigEndian.Uint64(b[:]) >> 3; epoch != 0 {
			return epoch
		}
	}
}
