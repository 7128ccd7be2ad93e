package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What a claim record does; it is the record's Value. Ref is the record that
// gave the claim to its owner, but for a claimTaken itself.
const (
	claimTaken    = iota + 1 // Owner has the claim until Until
	claimAnew                // the same; what was noted and done before does not count
	claimRenewed             // it lasts until Until
	claimNoted               // Text is a note, which is kept until Until
	claimDone                // it is done, and cannot be claimed until Until
	claimReleased            // it may be claimed
)

// ClaimRequest says what is claimed.
type ClaimRequest struct {
	Name  string
	Hold  time.Duration // how long the claim lasts unless it is renewed
	Again time.Duration // how long it cannot be claimed once it is done; the log also keeps notes that long

	Owner string // the process, for others; may be empty
	// Resumes are the Owners of processes that are known to have ended. If one
	// still holds the claim, the new owner takes it over without waiting.
	Resumes []string
	Anew    bool // claim finished work again, and drop its notes
}

// ClaimState is what a log holds of a claim. Times are by the ledger's clock.
type ClaimState struct {
	ID        ID        // of the record that gave it to its owner
	Owner     string    // of the last process that claimed it; empty if there is none
	Since     time.Time // when that claimed it
	Until     time.Time // when the claim lapses; zero if it has lapsed, was released or is done
	Lapsed    bool      // it was neither released nor done
	Done      time.Time // when it was done; zero if it was not
	DoneUntil time.Time // until when it cannot be claimed since it is done
	Notes     []string  // of all owners, oldest first
}

// IsFree reports whether the claim is neither held nor done.
func (s *ClaimState) IsFree() bool { return s.Until.IsZero() && s.Done.IsZero() }

// Errors of claims; package quota exports them.
var (
	ErrClaimed   = errors.New("quota: claimed by another process")
	ErrClaimLost = errors.New("quota: the claim has lapsed")
)

// ClaimedError says that something is claimed, or was done, by another process.
// It matches ErrClaimed.
type ClaimedError struct {
	Name  string
	Done  bool          // it is done, not held
	Owner string        // empty if it is unknown
	Since time.Time     // when the owner claimed it, by the ledger's clock; zero if that is unknown
	Until time.Time     // when it can be claimed, unless it is renewed
	After time.Duration // the time left until Until
	ID    ID            // of the record that gave it to its owner
}

// Error names the owner and the time.
func (e *ClaimedError) Error() string {
	owner, verb := cmp.Or(e.Owner, "another process"), "is claimed"
	if e.Done {
		verb = "was done"
	}
	return fmt.Sprintf("%s %s by %s, until %s", e.Name, verb, owner, e.Until.UTC().Format(time.RFC3339))
}

// Is reports whether target is ErrClaimed.
func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// addClaim keeps a claim record, in the order of all by their times and ids.
func (c *controls) addClaim(added control) {
	records := c.claims[added.Name]
	if slices.ContainsFunc(records, func(r control) bool { return r.ID == added.ID }) {
		return
	}
	i := len(records)
	for i > 0 && !added.replaces(&records[i-1]) {
		i--
	}
	c.claims[added.Name] = slices.Insert(records, i, added)
}

// claim returns the state of a claim. What was noted or done counts until its
// time has come.
func (c *controls) claim(name string, now int64) (s ClaimState) {
	for i := range c.claims[name] {
		r := &c.claims[name][i]
		isOwners := r.Ref == s.ID
		switch {
		case r.Value == claimTaken:
			s.take(&r.Record)
		case r.Value == claimAnew:
			s = ClaimState{}
			s.take(&r.Record)
		case r.Value == claimRenewed && isOwners:
			s.Until = time.UnixMicro(r.Until).UTC()
		case r.Value == claimNoted && r.Until > now:
			s.Notes = append(s.Notes, r.Text)
		case r.Value == claimDone && r.Until > now:
			s.Done, s.DoneUntil = time.UnixMicro(r.At).UTC(), time.UnixMicro(r.Until).UTC()
			s.Until = time.Time{}
		case r.Value == claimReleased && isOwners:
			s.Until = time.Time{}
		}
	}
	if s.isHeld(time.Time{}) && !s.isHeld(time.UnixMicro(now)) {
		s.Until, s.Lapsed = time.Time{}, true
	}
	return s
}

// take gives the claim to the owner of a record.
func (s *ClaimState) take(r *Record) {
	s.ID, s.Owner = r.ID, r.Owner
	s.Since, s.Until = time.UnixMicro(r.At).UTC(), time.UnixMicro(r.Until).UTC()
}

// isHeld reports whether an owner has the claim at a time.
func (s *ClaimState) isHeld(at time.Time) bool { return s.Until.After(at) }

// Claim is the right of one process, among all that use the ledger, to do
// something. It is safe for concurrent use.
type Claim struct {
	// Before is what the ledger held of the claim when it was granted.
	Before ClaimState
	// ID is that of the record that gave it to this process.
	ID ID

	account *Account
	request ClaimRequest

	mu    sync.Mutex
	asked time.Time // when the claim or its latest renewal was asked for
}

// Claim claims something for this process. Renew the claim within Hold, or it
// lapses, and call Claim.Done when it is done, or Claim.Release if it was not.
// Claim returns a *ClaimedError if another process holds the claim, or if it
// was done within Again. A cooldown does not matter.
func (a *Account) Claim(ctx context.Context, r ClaimRequest) (*Claim, error) {
	var claim *Claim
	var claimed *ClaimedError
	asked := time.Now()
	t := newTask(true, func(d *decision) {
		claim, claimed = nil, nil
		before, now := d.claim(r.Name), time.UnixMicro(d.now)
		isResumed := before.Owner != "" && slices.Contains(r.Resumes, before.Owner)
		isOthers, isDone := before.isHeld(now) && !isResumed, before.DoneUntil.After(now)
		if isOthers || isDone && !r.Anew {
			claimed = &ClaimedError{Name: r.Name, Owner: before.Owner, Since: before.Since, ID: before.ID,
				Done: !before.isHeld(now), Until: before.Until}
			if claimed.Done {
				claimed.Until = before.DoneUntil
			}
			claimed.After = claimed.Until.Sub(now)
			return
		}
		record := d.claimRecord(r.Name, claimTaken, ID{}, d.wall+r.Hold.Microseconds())
		if record.Owner = r.Owner; r.Anew && isDone {
			record.Value, before.Notes = claimAnew, nil
		}
		d.add(record)
		claim = &Claim{Before: before, ID: record.ID, account: a, request: r, asked: asked}
	})
	t.undone = func() {
		if claim != nil { // it would be held by nobody
			_ = claim.Release(context.Background())
		}
	}
	switch err := a.do(ctx, t); {
	case err != nil:
		return nil, fmt.Errorf("claim %s: %w", r.Name, err)
	case claimed != nil:
		return nil, claimed
	}
	return claim, nil
}

// Claimed returns the claim that a record gave to some process.
func (a *Account) Claimed(r ClaimRequest, id ID) *Claim {
	return &Claim{ID: id, account: a, request: r}
}

// ClaimState returns what the ledger holds of a claim. It writes nothing.
func (a *Account) ClaimState(ctx context.Context, name string) (s ClaimState, err error) {
	err = a.View(ctx, func(v *View) { s = v.Claim(name) })
	return s, err
}

// claim returns the state of a claim, which another task of the round may be
// about to take.
func (d *decision) claim(name string) ClaimState {
	for _, r := range d.records {
		isTaken := r.Value == claimTaken || r.Value == claimAnew
		if r.Kind == KindClaim && r.Name == name && isTaken {
			taken := *r
			taken.At = d.now
			var s ClaimState
			s.take(&taken)
			return s
		}
	}
	return d.fold.control.claim(name, d.now)
}

func (d *decision) claimRecord(name string, what int64, ref ID, until int64) *Record {
	d.strict = true
	return &Record{Kind: KindClaim, Name: name, Value: what,
		Ref: ref, Until: until, Labels: Labels{Host: d.host}}
}

// Lapses returns when the claim lapses at the earliest, by this process's
// monotonic clock: Hold after the last successful renewal was asked for.
func (c *Claim) Lapses() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked.Add(c.request.Hold)
}

// Renew makes the claim last for Hold from now. It returns ErrClaimLost if it
// has lapsed; after any other error the claim lasts as long as it did.
func (c *Claim) Renew(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, ok := time.Now(), false
	err := c.account.do(ctx, newTask(false, func(d *decision) {
		s := d.fold.control.claim(c.request.Name, d.now)
		isEnded := slices.ContainsFunc(d.records, func(r *Record) bool {
			isNote := r.Value == claimNoted || r.Value == claimRenewed
			return r.Kind == KindClaim && r.Name == c.request.Name && !isNote
		})
		if ok = s.ID == c.ID && s.isHeld(time.UnixMicro(d.now)) && !isEnded; ok {
			d.add(d.claimRecord(c.request.Name, claimRenewed, c.ID, d.wall+c.request.Hold.Microseconds()))
		}
	}))
	if err == nil && !ok {
		err = ErrClaimLost
	}
	if err != nil {
		return fmt.Errorf("renew %s: %w", c.request.Name, err)
	}
	c.asked = asked
	return nil
}

// MaxClaimNote is the most bytes of a note of a claim.
const MaxClaimNote = 512

// Note records a note for later owners: how far this one has come. It must have
// at most MaxClaimNote bytes. It does not depend on whether the claim is held.
func (c *Claim) Note(ctx context.Context, note string) error {
	if len(note) > MaxClaimNote {
		return fmt.Errorf("a note of %d bytes on %s; shorten it to %d", len(note), c.request.Name, MaxClaimNote)
	}
	return c.account.do(ctx, newTask(false, func(d *decision) {
		keep := max(c.request.Again, c.request.Hold).Microseconds()
		record := d.claimRecord(c.request.Name, claimNoted, c.ID, d.wall+keep)
		record.Text = note
		d.add(record)
	}))
}

// Done records that what was claimed is done, so that no process claims it
// again for ClaimRequest.Again. It ignores the cancellation of its context.
func (c *Claim) Done(ctx context.Context) error { return c.end(ctx, c.request.Again) }

// Release lets another process, or this one, claim it at once. Its notes stay.
// It ignores the cancellation of its context.
func (c *Claim) Release(ctx context.Context) error { return c.end(ctx, 0) }

func (c *Claim) end(ctx context.Context, again time.Duration) error {
	return c.account.do(context.WithoutCancel(ctx), newTask(false, func(d *decision) {
		name := c.request.Name
		if again > 0 {
			d.add(d.claimRecord(name, claimDone, c.ID, d.wall+again.Microseconds()))
		} else if d.fold.control.claim(name, d.now).ID == c.ID {
			d.add(d.claimRecord(name, claimReleased, c.ID, 0))
		}
	}))
}

// Claim returns the state of a claim.
func (v *View) Claim(name string) ClaimState { return v.fold.control.claim(name, v.now) }
