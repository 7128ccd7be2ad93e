package engine

import (
	"context"
	"slices"
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

// ClaimState is what a log holds of a claim. Times are in microseconds.
type ClaimState struct {
	ID        ID       // of the record that gave it to its owner
	Owner     string   // the last one; empty if there is none
	Since     int64    // since when
	Until     int64    // when it lapses; 0 if it has lapsed, was released or is done
	Lapsed    bool     // it was neither released nor done
	Done      int64    // when it was done; 0 if it was not
	DoneUntil int64    // until when it cannot be claimed since it is done
	Notes     []string // of all owners, oldest first
}

// Refuses reports whether the claim cannot be taken at a time.
func (s *ClaimState) Refuses(now int64) bool { return s.Until > now || s.DoneUntil > now }

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
			s.ID = r.ID
			s.Owner = r.Owner
			s.Since = r.At
			s.Until = r.Until
		case r.Value == claimAnew:
			s = ClaimState{ID: r.ID, Owner: r.Owner, Since: r.At, Until: r.Until}
		case r.Value == claimRenewed && isOwners:
			s.Until = r.Until
		case r.Value == claimNoted && r.Until > now:
			s.Notes = append(s.Notes, r.Text)
		case r.Value == claimDone && r.Until > now:
			s.Done = r.At
			s.DoneUntil = r.Until
			s.Until = 0
		case r.Value == claimReleased && isOwners:
			s.Until = 0
		}
	}
	if s.Until != 0 && s.Until <= now {
		s.Until, s.Lapsed = 0, true
	}
	return s
}

// ClaimRequest asks for a claim.
type ClaimRequest struct {
	Name    string
	Owner   string
	Hold    int64    // how long it holds unless it is renewed, in microseconds
	Anew    bool     // it may have been done, and its notes go
	Resumes []string // owners that have ended, whose claim is taken over
}

// Claim takes a claim, unless another owner holds it or it is done. It returns
// its state before, when that was, and whether it was taken.
func (a *Account) Claim(ctx context.Context, r ClaimRequest) (id ID, before ClaimState, now int64, err error) {
	t := newTask(true, func(d *decision) {
		before = d.claim(r.Name)
		now = d.now
		id = ID{}
		isHeld := before.Until > d.now && !(before.Owner != "" && slices.Contains(r.Resumes, before.Owner))
		isDone := before.DoneUntil > d.now && !r.Anew
		if isHeld || isDone {
			return
		}
		record := d.claimRecord(r.Name, claimTaken, ID{}, d.wall+r.Hold)
		if record.Owner = r.Owner; r.Anew && before.DoneUntil > d.now {
			record.Value = claimAnew
		}
		d.add(record)
		id = record.ID
	})
	t.undone = func() { _ = a.EndClaim(context.Background(), r.Name, id, 0) } // else it would be held by nobody
	err = a.do(ctx, t)
	return id, before, now, err
}

// claim returns the state of a claim, which another task of the round may be
// about to take.
func (d *decision) claim(name string) ClaimState {
	for _, r := range d.records {
		isTaken := r.Value == claimTaken || r.Value == claimAnew
		if r.Kind == KindClaim && r.Name == name && isTaken {
			return ClaimState{ID: r.ID, Owner: r.Owner, Since: d.now, Until: r.Until}
		}
	}
	return d.fold.control.claim(name, d.now)
}

func (d *decision) claimRecord(name string, what int64, ref ID, until int64) *Record {
	d.strict = true
	return &Record{Kind: KindClaim, Name: name, Value: what,
		Ref: ref, Until: until, Labels: Labels{Host: d.host}}
}

// RenewClaim makes a claim last for a length of time from now. ok is false if
// it has lapsed and another process may have it.
func (a *Account) RenewClaim(ctx context.Context, name string, id ID, hold int64) (ok bool, err error) {
	err = a.do(ctx, newTask(false, func(d *decision) {
		s := d.fold.control.claim(name, d.now)
		isEnded := slices.ContainsFunc(d.records, func(r *Record) bool {
			isNote := r.Value == claimNoted || r.Value == claimRenewed
			return r.Kind == KindClaim && r.Name == name && !isNote
		})
		if ok = s.ID == id && s.Until > d.now && !isEnded; ok {
			d.add(d.claimRecord(name, claimRenewed, id, d.wall+hold))
		}
	}))
	return ok, err
}

// NoteClaim adds a note, which is kept for a length of time.
func (a *Account) NoteClaim(ctx context.Context, name string, id ID, note string, keep int64) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		record := d.claimRecord(name, claimNoted, id, d.wall+keep)
		record.Text = note
		d.add(record)
	}))
}

// EndClaim ends a claim: it is done, and cannot be claimed for a length of
// time, or it is released if that is 0.
func (a *Account) EndClaim(ctx context.Context, name string, id ID, again time.Duration) error {
	return a.do(ctx, newTask(false, func(d *decision) {
		if again > 0 {
			d.add(d.claimRecord(name, claimDone, id, d.wall+again.Microseconds()))
		} else if d.fold.control.claim(name, d.now).ID == id {
			d.add(d.claimRecord(name, claimReleased, id, 0))
		}
	}))
}

// Claim returns the state of a claim.
func (v *View) Claim(name string) ClaimState { return v.fold.control.claim(name, v.now) }
