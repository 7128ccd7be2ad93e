package quota

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
)

// ID identifies one request: the client that made it, and a number that
// the client gives once.
type ID struct {
	Client uint64
	Seq    uint64
}

// String returns the id as logs show it.
func (id ID) String() string { return fmt.Sprintf("%012x-%d", id.Client, id.Seq) }

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

// Receipt identifies a recorded entry.
type Receipt struct {
	Account string
	Key     string
	ID      ID
	At      time.Time // the entry's stamp, unique in its log

	// Recorded is what counts now, for Settle and Refund in a log that keeps no
	// entries. Answers leave it nil; a Grant sets it.
	Recorded *Recorded
}

// Recorded is what a ledger has counted for a call.
type Recorded struct {
	Method   string
	Caller   Caller
	Units    Units // 0 when Refunded
	Refunded bool  // it counts no call either
}

// Standing is what one charge's window holds at one instant.
type Standing struct {
	At       time.Time // the ledger's clock
	Since    time.Time // entries stamped at or after this count; zero for an estimate
	Used     Units
	Over     Units         // of an estimate: how much more than Used the trailing window may really hold
	NextFree time.Time     // when the next units return; zero when nothing is used
	Cooldown *Cooldown     // nil when none holds
	Ahead    time.Duration // how far the log's newest stamp is ahead of At, when by more than MaxStepBack; else 0
}

// Query selects entries of one log.
type Query struct {
	Account string
	Key     string
	Since   time.Time // zero: from the oldest
	Until   time.Time // zero: to the newest

	Newest    bool // Entries yields the newest first; Sums does not read it
	PerClient bool // Sums tells clients apart; Entries does not read it
}

// Sum is what the entries of one kind, method and caller add up to, or with
// Query.PerClient those that one client made.
type Sum struct {
	Kind   EntryKind
	Method string
	Caller Caller
	Client uint64 // as in ID; 0 without Query.PerClient

	Entries int64
	Units   Units
	Calls   Units
	First   time.Time // the stamp of the oldest entry
	Last    time.Time // the stamp of the newest entry
}

// Entry is one record of a log.
type Entry struct {
	At     time.Time
	ID     ID
	Kind   EntryKind
	Method string
	Caller Caller
	Units  Units
	Calls  Units // 1 for a call; 0 for a refunded call and an addition; what it says for a note or a correction
}

// EntryKind is what an entry records.
type EntryKind uint8

const (
	EntryCall       EntryKind = iota
	EntryRefunded             // a call that was never sent
	EntryAddition             // units added late to an earlier call, see Ledger.Settle
	EntryNote                 // what the upstream or an operator says, such as the spends of others
	EntryCorrection           // an operator's correction of what is used
)

// String returns the word: call, refunded, addition, note or correction.
func (k EntryKind) String() string {
	switch k {
	case EntryCall:
		return "call"
	case EntryRefunded:
		return "refunded"
	case EntryAddition:
		return "addition"
	case EntryNote:
		return "note"
	case EntryCorrection:
		return "correction"
	}
	return fmt.Sprintf("EntryKind(%d)", uint8(k))
}

// Cooldown is the upstream's word to stop for a time.
type Cooldown struct {
	Account string
	Budget  string // empty: the whole account

	// For is how long it holds from the moment at which the ledger sets it, so
	// that the host's clock has no part in it. It is read by SetCooldown alone,
	// and only when it is above 0.
	For   time.Duration
	Until time.Time // on the ledger's clock, at most MaxUnix; read by SetCooldown when For is 0

	Reason string // what the upstream said; at most 200 bytes are kept
}
