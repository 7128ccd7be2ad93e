package quota

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// ClaimRequest says what Guard.Claim claims.
type ClaimRequest struct {
	Account string        // whose quota it is about
	Name    string        // what is claimed
	Hold    time.Duration // how long the claim lasts unless it is renewed
	Again   time.Duration // how long it cannot be claimed once it is done; the ledger also keeps notes that long

	// Owner names the process to others, in at most MaxClaimNote bytes. If it
	// is empty, the claim has no notes.
	Owner string
	// Resumes are the Owners of processes that are known to have ended. If one
	// still holds the claim, the new owner takes it over without waiting.
	Resumes []string
	// Anew reclaims finished work, and drops its notes.
	Anew bool
}

// Claim is the right of one process, among all that use the ledger, to do
// something. It is safe for concurrent use.
type Claim struct {
	// Before is what the ledger held of the claim when it was granted, if it
	// has an owner.
	Before ClaimState

	account *engine.Account
	request ClaimRequest
	id      engine.ID // of the record that gave it to this process

	mu    sync.Mutex
	asked time.Time // when the claim or its latest renewal was asked for
}

// ClaimedError says that something is claimed, or was done, by another process.
type ClaimedError struct {
	Name  string
	Done  bool          // it is done, not held
	Owner string        // "" if it is unknown
	Since time.Time     // when the owner claimed it, by the ledger's clock; zero if that is unknown
	Until time.Time     // when it can be claimed, unless it is renewed
	After time.Duration // the time left until Until
}

// Error names the owner and the time.
func (e *ClaimedError) Error() string {
	owner, verb := cmp.Or(e.Owner, "another process"), "is claimed"
	if e.Done {
		verb = "was done"
	}
	return fmt.Sprintf("%s %s by %s, until %s", e.Name, verb, owner, human.Time(e.Until))
}

// Is reports whether target is ErrClaimed.
func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// Claim claims something for this process. Renew the claim within Hold, or it
// lapses, and call Claim.Done when it is done, or Claim.Release if it was not.
// Claim returns a *ClaimedError if another process holds the claim, or if it
// was done within Again. All times are by the ledger's clock. A cooldown does
// not matter.
func (g *Guard) Claim(ctx context.Context, r ClaimRequest) (*Claim, error) {
	c := &Claim{account: g.account(r.Account), request: r, asked: time.Now()}
	id, before, now, err := c.account.Claim(ctx, engine.ClaimRequest{
		Name: r.Name, Owner: r.Owner, Hold: r.Hold.Microseconds(), Anew: r.Anew, Resumes: r.Resumes})
	switch {
	case err != nil:
		return nil, opError("claim "+r.Name, err)
	case id == engine.ID{}:
		return nil, claimedBy(&r, &before, now)
	}
	c.id = id
	c.Before = claimStateOf(&before)
	if r.Anew && before.Done != 0 {
		c.Before.Notes = nil
	}
	return c, nil
}

// claimedBy returns the error of a claim that cannot be taken.
func claimedBy(r *ClaimRequest, s *engine.ClaimState, now int64) error {
	e := &ClaimedError{Name: r.Name, Owner: s.Owner, Since: ledgerTime(s.Since), Until: ledgerTime(s.Until)}
	if e.Done = s.Until <= now; e.Done {
		e.Until = ledgerTime(s.DoneUntil)
	}
	e.After = e.Until.Sub(ledgerTime(now))
	return e
}

// ClaimState is what a ledger holds of a claim. Times are by the
// ledger's clock.
type ClaimState struct {
	Owner string    // of the last process that claimed it; "" if there is none
	Since time.Time // when that claimed it
	Until time.Time // when the claim lapses; zero if it is not held, or done
	Done  time.Time // when it was done; zero if it was not
	Notes [][]byte  // of all owners, oldest first
}

func claimStateOf(s *engine.ClaimState) ClaimState {
	state := ClaimState{Owner: s.Owner, Since: ledgerTime(s.Since), Until: ledgerTime(s.Until),
		Done: ledgerTime(s.Done)}
	for _, note := range s.Notes {
		state.Notes = append(state.Notes, []byte(note))
	}
	return state
}

// ClaimState returns what the ledger holds of a claim, or the zero ClaimState
// if that is neither held nor done. It writes nothing.
func (g *Guard) ClaimState(ctx context.Context, r ClaimRequest) (*ClaimState, error) {
	state := ClaimState{}
	err := g.account(r.Account).View(ctx, func(v *engine.View) {
		if s := v.Claim(r.Name); s.Until != 0 || s.Done != 0 {
			state = claimStateOf(&s)
		}
	})
	if err != nil {
		return nil, opError("state of claim "+r.Name, err)
	}
	return &state, nil
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
	asked := time.Now()
	ok, err := c.account.RenewClaim(ctx, c.request.Name, c.id, c.request.Hold.Microseconds())
	switch {
	case err != nil:
		return opError("renew "+c.request.Name, err)
	case !ok:
		return opError("renew "+c.request.Name, ErrClaimLost)
	}
	c.asked = asked
	return nil
}

// Note records a note for later owners: how far this one has come. It must have
// at most MaxClaimNote bytes. It does not depend on whether the claim is held.
func (c *Claim) Note(ctx context.Context, note []byte) error {
	if len(note) > MaxClaimNote {
		return fmt.Errorf("note of %s: %w: a note of %d bytes; shorten it to %d", c.request.Name, ErrBadCall, len(note),
			MaxClaimNote)
	}
	keep := max(c.request.Again, c.request.Hold).Microseconds()
	return opError("note of "+c.request.Name, c.account.NoteClaim(ctx, c.request.Name, c.id, string(note), keep))
}

// Done records that what was claimed is done, so that no process claims it
// again for ClaimRequest.Again.
func (c *Claim) Done(ctx context.Context) error {
	return opError("claim", c.account.EndClaim(context.WithoutCancel(ctx), c.request.Name, c.id, c.request.Again))
}

// Release lets another process, or this one, claim it at once. Its notes stay.
func (c *Claim) Release(ctx context.Context) error {
	return opError("claim", c.account.EndClaim(context.WithoutCancel(ctx), c.request.Name, c.id, 0))
}
