package quota

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// ClaimState is what a ledger holds of a claim. Times are by the
// ledger's clock.
type ClaimState struct {
	Owner string    // of the last process that claimed it; "" if there is none
	Since time.Time // when that claimed it
	Until time.Time // when the claim lapses; zero if it is not held, or done
	Done  time.Time // when it was done; zero if it was not
	Notes [][]byte  // of all owners, oldest first
}

// MaxClaimNote is the most bytes of a note.
const MaxClaimNote = 512

// Notes are written into entries that count for nothing: chunkBytes of them are
// the units and calls of one. Names of methods are few, because a ledger keeps
// them for longer than a log.
const (
	ownerMethod = "owner" // begins a note with the new owner,
	anewMethod  = "anew"  // the same, and all earlier notes are dropped,
	noteMethod  = "note"  // another note
	moreMethod  = "more"  // goes on with it
	chunkBytes  = 6
)

// Note records a note for later owners: how far this one has come. It must have
// at most MaxClaimNote bytes. It does not depend on whether the claim is held.
func (c *Claim) Note(ctx context.Context, note []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return opError("note of "+c.request.Name, c.recordNote(ctx, noteMethod, note))
}

// recordNote records a note. It also renews the claim before too many entries
// follow it: a ledger refunds only what is near the end of a log (MaxSettle).
func (c *Claim) recordNote(ctx context.Context, method string, note []byte) error {
	if len(note) > MaxClaimNote {
		return fmt.Errorf("%w: a note of %d bytes; shorten it to %d", ErrBadCall, len(note), MaxClaimNote)
	}
	requests := packNote(method, note)
	if c.newer+len(requests) > MaxSettle/2 {
		return c.renew(ctx, requests...)
	}
	_, err := c.spend(ctx, c.request.batch(requests...))
	if err == nil {
		c.newer += len(requests)
	}
	return err
}

// packNote returns the entries of a note: its length in two bytes, and
// the note.
func packNote(method string, note []byte) (requests []Request) {
	packed := append([]byte{byte(len(note) >> 8), byte(len(note))}, note...)
	for chunk := range slices.Chunk(packed, chunkBytes) {
		var b [chunkBytes]byte
		copy(b[:], chunk)
		requests = append(requests, Request{Method: method, Caller: Caller{Lane: externalLane}, Kind: EntryNote, Force: true,
			Units: unpackUnits(b[:chunkBytes/2]), Calls: unpackUnits(b[chunkBytes/2:])})
		method = moreMethod
	}
	return requests
}

func unpackUnits(b []byte) (u Units) {
	for _, next := range b {
		u = u<<8 | Units(next)
	}
	return u
}

// packedNote is a note that is being read.
type packedNote struct {
	method string
	at     time.Time
	bytes  []byte
}

// add adds what an entry holds, and reports whether the note is complete.
func (n *packedNote) add(e *Entry) bool {
	for _, u := range []Units{e.Units, e.Calls} {
		n.bytes = append(n.bytes, byte(u>>16), byte(u>>8), byte(u))
	}
	most := 2 + int(n.bytes[0])<<8 + int(n.bytes[1])
	if len(n.bytes) < most {
		return false
	}
	n.bytes = n.bytes[2:most]
	return true
}

// claimLog is a claim as its log tells.
type claimLog struct {
	ClaimState
	held, done *Receipt  // the newest entries that count; nil if there are none
	claims     []Receipt // those that count, and held last
	unnamed    bool      // the last process that claimed it has not noted its name yet
}

// hideFormerOwner forgets the owner if a later one has claimed it since.
func (l *claimLog) hideFormerOwner() {
	if l.unnamed {
		l.Owner, l.Since = "", l.held.At
	}
}

// readClaim reads the log of a claim. It does not say until when the claim
// is held.
func (g *Guard) readClaim(ctx context.Context, r *ClaimRequest) (*claimLog, error) {
	log, batch := &claimLog{}, r.batch()
	var reading *packedNote
	for e, err := range g.ledger.Entries(ctx, Query{Account: batch.Account, Key: batch.Key}) {
		if err != nil {
			return nil, err
		}
		receipt := &Receipt{Account: batch.Account, Key: batch.Key, ID: e.ID, At: e.At}
		if isClaim := e.Method == claimMethod || e.Method == renewMethod; isClaim && e.Calls > 0 {
			log.claims = append(log.claims, *receipt)
		}
		switch {
		case e.Method == claimMethod && e.Calls > 0:
			log.held, log.unnamed = receipt, true
		case e.Method == renewMethod && e.Calls > 0:
			log.held = receipt
		case e.Method == doneMethod && e.Calls > 0:
			log.done, log.Done = receipt, e.At
		case e.Kind != EntryNote:
			continue
		case e.Method != moreMethod:
			reading = &packedNote{method: e.Method, at: e.At}
		}
		if e.Kind == EntryNote && reading != nil && reading.add(&e) {
			log.addNote(reading)
			reading = nil
		}
	}
	return log, nil
}

func (l *claimLog) addNote(n *packedNote) {
	if n.method == noteMethod {
		l.Notes = append(l.Notes, n.bytes)
		return
	}
	l.Owner = string(n.bytes)
	l.Since = n.at
	l.unnamed = false
	if n.method == anewMethod {
		l.Notes = nil
	}
}

// ClaimState returns what the ledger holds of a claim, or the zero ClaimState
// if that is neither held nor done. It writes nothing.
func (g *Guard) ClaimState(ctx context.Context, r ClaimRequest) (*ClaimState, error) {
	batch, charges := r.batch(), r.charges()
	standings, err := g.ledger.Standings(ctx, batch.Account, batch.Key, charges)
	if err != nil {
		return nil, opError("state of claim "+r.Name, err)
	}
	held, done := &standings[0], &standings[1]
	if held.Used == 0 && done.Used == 0 {
		return &ClaimState{}, nil
	}
	log, err := g.readClaim(ctx, &r)
	if err != nil {
		return nil, opError("state of claim "+r.Name, err)
	}
	if held.Used > 0 {
		log.hideFormerOwner()
	}
	if held.Used > 0 && log.done == nil {
		log.Until = held.NextFree
	}
	return &log.ClaimState, nil
}
