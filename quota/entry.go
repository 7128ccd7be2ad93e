package quota

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// ID identifies one request to a ledger. A client uses each Seq once.
type ID struct {
	Client uint64 // who chose the id
	Seq    uint64
}

// String returns the id as ration log shows it.
func (id ID) String() string { return fmt.Sprintf("%012x-%d", id.Client, id.Seq) }

// NameID returns the ID that a name stands for, for Call.ID: the same in every
// process. what describes all that a repeat must have in common with the first
// call, such as its units; a call with the same name and another description is
// an ErrReused.
func NameID(name, what string) ID {
	client, seq := sha256.Sum256([]byte(name)), sha256.Sum256([]byte(what))
	return ID{Client: max(binary.BigEndian.Uint64(client[:8])>>16, 1),
		Seq: uint64(binary.BigEndian.Uint32(seq[:4]) >> 1)} // logs keep 32 bits of a Seq
}

// derived returns the ID of other calls of the same description.
func (id ID) derived(name string) ID {
	return ID{Client: NameID(id.String()+name, "").Client, Seq: id.Seq}
}

// Query selects entries of one log.
type Query struct {
	Account string
	Key     string    // only entries of this key; empty selects all
	Since   time.Time // the earliest timestamp, inclusive; zero selects from the oldest entry
	Until   time.Time // the latest timestamp, exclusive; zero selects to the newest entry

	// Past selects also entries that the log has dropped, as far as this host's
	// copy has them: those of the last eight days. Newest and Limit have no
	// effect then.
	Past bool

	Newest bool // for Entries: yield the newest entry first
	Limit  int  // for Entries: the most that it yields; 0 yields all
}

// Sum adds up the entries of one kind, method, caller and host, those with keys
// apart from those without.
type Sum struct {
	Kind   EntryKind
	Method string
	Caller Caller
	OfKeys bool // of calls with a key
	Host   string

	Entries  int64 // the number of entries
	Units    Units
	Calls    Units
	Measures map[Measure]Units
	First    time.Time // the timestamp of the oldest entry
	Last     time.Time // the timestamp of the newest entry
}

// Entry is one record of a log.
type Entry struct {
	At     time.Time // the entry's timestamp, unique in its log
	ID     ID
	Kind   EntryKind
	Method string
	Caller Caller
	Key    string // of the call; often empty
	Host   string // whose process recorded it; empty if that has no name, or is of an earlier release
	Units  Units
	Calls  Units // 1 for a call, 0 for a refunded call, Note.Calls for the others

	Measures map[Measure]Units // in named measures
	Open     bool              // its lease has not ended: see Call.Lease
	Budget   string            // that refused the call; empty for a cooldown of the account
}

// acceptLoss is the method of the note that AcceptLoss adds to a log.
const acceptLoss = "ledger.accept-loss"

// EntryKind is what an entry records.
type EntryKind uint8

// The kinds of entry.
const (
	EntryCall       EntryKind = iota
	EntryRefunded             // a call that was refunded because it was never sent
	EntryNote                 // a remark, or usage that the upstream reports; see Guard.Note
	EntryCorrection           // an operator's correction; see Guard.Note
	EntryRefused              // a call that was refused, of which only some are recorded; see Guard.RecordRefusal
)

// isAdjustment reports whether entries of the kind were never calls: they are
// notes and corrections.
func (k EntryKind) isAdjustment() bool { return k == EntryNote || k == EntryCorrection }

// String returns call, refunded, note, correction or refused.
func (k EntryKind) String() string {
	names := [...]string{EntryCall: "call", EntryRefunded: "refunded", EntryNote: "note", EntryCorrection: "correction",
		EntryRefused: "refused"}
	if int(k) >= len(names) {
		return fmt.Sprintf("EntryKind(%d)", uint8(k))
	}
	return names[k]
}
