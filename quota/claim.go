package quota

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
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

	guard   *Guard
	request ClaimRequest

	mu      sync.Mutex
	receipt Receipt   // of the newest claim or renewal, which alone counts
	asked   time.Time // when that was asked for
	newer   int       // entries since
	doubt   bool      // the log may have entries that hold the claim beside receipt
}

var (
	// ErrClaimed matches every *ClaimedError.
	ErrClaimed = errors.New("quota: claimed by another process")
	// ErrClaimLost is returned by Claim.Renew if the claim lapsed, or the
	// ledger has lost it. Another process may hold it.
	ErrClaimLost = errors.New("quota: the claim has lapsed")
)

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
	return fmt.Sprintf("%s %s by %s, until %s", e.Name, verb, owner, textfmt.Time(e.Until))
}

// Is reports whether target is ErrClaimed.
func (e *ClaimedError) Is(target error) bool { return target == ErrClaimed }

// A claim is a keyed log of its own. An entry of method claim holds it for
// ClaimRequest.Hold, for an owner that is yet to be noted. A renewal adds an
// entry of method renew and refunds the one before. An entry of method done is
// a claim that is done.
const (
	claimMethod = "claim"
	renewMethod = "renew"
	doneMethod  = "done"
)

func claimCoverage() *Coverage {
	return NewCoverage(Coverage{Methods: []string{claimMethod, renewMethod}})
}
func doneCoverage() *Coverage { return NewCoverage(Coverage{Methods: []string{doneMethod}}) }

// charges returns the budgets that refuse a claim which is held or done.
func (r *ClaimRequest) charges() []*Charge {
	done := Units(1)
	if r.Anew {
		done = MaxLimit
	}
	return []*Charge{
		{Budget: claimMethod, Coverage: claimCoverage(), Limit: 1, Window: Sliding(r.Hold)},
		{Budget: doneMethod, Coverage: doneCoverage(), Limit: done, Window: Sliding(r.Again)},
	}
}

// batch returns a batch on the log of the claim. Claims have accounts of their
// own, because a cooldown of the account that they are about would refuse them.
// There are several, because a ledger keeps all keyed logs of an account for as
// long as the longest of their windows.
func (r *ClaimRequest) batch(requests ...Request) *Batch {
	least := time.Minute << bits.Len64(uint64((r.Again-1)/time.Minute))
	key := sha256.Sum256([]byte(r.Account + "\x00" + r.Name))
	return &Batch{Account: reservedPrefix + "claims of " + textfmt.Exactly(least), Key: hex.EncodeToString(key[:16]), Requests: requests}
}

func newClaimEntry(method string, charges ...*Charge) Request {
	return Request{Method: method, Caller: Caller{Lane: externalLane}, Units: 1, Charges: charges}
}

// Claim claims something for this process. Renew the claim within Hold, or it
// lapses, and call Claim.Done when it is done, or Claim.Release if it was not.
// Claim returns a *ClaimedError if another process holds the claim, or if it
// was done within Again. All times are by the ledger's clock. A cooldown does
// not matter.
func (g *Guard) Claim(ctx context.Context, r ClaimRequest) (*Claim, error) {
	c := &Claim{guard: g, request: r}
	err := c.acquire(ctx)
	if claimed, ok := errors.AsType[*ClaimedError](err); ok && r.Owner != "" {
		err = c.explain(ctx, claimed)
	}
	if err == nil && r.Owner != "" {
		err = c.begin(ctx)
	}
	if err != nil && !errors.Is(err, ErrClaimed) {
		return nil, opError("claim "+r.Name, err)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// acquire asks the ledger for the claim.
func (c *Claim) acquire(ctx context.Context) error {
	asked := time.Now()
	receipts, err := c.spend(ctx, c.request.batch(newClaimEntry(claimMethod, c.request.charges()...)))
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return &ClaimedError{Name: c.request.Name, Done: refused.Budget == doneMethod, Until: refused.RetryAt, After: refused.RetryAfter}
	}
	if err == nil {
		c.receipt, c.asked = receipts[0], asked
	}
	return err
}

// spend records a batch, of which each request must be granted.
func (c *Claim) spend(ctx context.Context, b *Batch) ([]Receipt, error) {
	answers, err := c.guard.ledger.Spend(ctx, b)
	if err != nil {
		return nil, err
	}
	receipts := make([]Receipt, len(answers))
	for i, answer := range answers {
		if answer.Err != nil {
			return nil, answer.Err
		}
		receipts[i] = answer.Receipt
	}
	return receipts, nil
}

// explain adds the owner to an error, or takes the claim over from one that
// has ended.
func (c *Claim) explain(ctx context.Context, claimed *ClaimedError) error {
	log, err := c.guard.readClaim(ctx, &c.request)
	if err != nil {
		return err
	}
	log.hideFormerOwner()
	claimed.Owner, claimed.Since = log.Owner, log.Since
	hasEnded := log.Owner != "" && slices.Contains(c.request.Resumes, log.Owner)
	if claimed.Done || log.held == nil || !hasEnded {
		return claimed
	}
	for _, receipt := range log.claims {
		hasLapsed := receipt.At.Before(log.held.At.Add(-c.request.Hold))
		if hasLapsed {
			continue
		}
		if err := c.guard.ledger.Refund(ctx, receipt); err != nil {
			return err
		}
	}
	return c.acquire(ctx) // unless another process has followed it meanwhile
}

// begin reads the notes of earlier owners and notes the new one.
func (c *Claim) begin(ctx context.Context) error {
	log, err := c.guard.readClaim(ctx, &c.request)
	method := ownerMethod
	if err == nil {
		c.Before = log.ClaimState
	}
	if err == nil && c.request.Anew && log.done != nil {
		method = anewMethod
		c.Before.Notes = nil
		err = c.guard.ledger.Refund(ctx, *log.done)
	}
	if err == nil {
		err = c.recordNote(ctx, method, []byte(c.request.Owner))
	}
	if err != nil {
		err = errors.Join(err, c.Release(ctx))
	}
	return err
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
	return opError("renew "+c.request.Name, c.renew(ctx))
}

// renew adds an entry and refunds the one before. If the two are less than Hold
// apart, no other process was granted the claim in between.
func (c *Claim) renew(ctx context.Context, notes ...Request) error {
	batch := c.request.batch(append(notes, newClaimEntry(renewMethod))...)
	if c.receipt.Epoch != 0 {
		batch.Known = c.receipt
	}
	asked, before := time.Now(), c.receipt
	receipts, err := c.spend(ctx, batch)
	c.doubt = c.doubt || errors.Is(err, ErrInDoubt)
	if _, forgotten := errors.AsType[*ForgottenError](err); forgotten {
		return fmt.Errorf("%w: %w", ErrClaimLost, err)
	}
	if err != nil {
		return err
	}
	latest := receipts[len(notes)]
	if !latest.At.Before(before.At.Add(c.request.Hold)) {
		return errors.Join(ErrClaimLost, c.guard.ledger.Refund(context.WithoutCancel(ctx), latest))
	}
	c.receipt = latest
	c.asked = asked
	c.newer = 0
	err = c.guard.ledger.Refund(context.WithoutCancel(ctx), before)
	c.doubt = c.doubt || err != nil
	return err
}

// Done records that what was claimed is done, so that no process claims it
// again for ClaimRequest.Again.
func (c *Claim) Done(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := c.spend(ctx, c.request.batch(newClaimEntry(doneMethod))); err != nil {
		return opError("claim", err)
	}
	return c.Release(ctx)
}

// Release lets another process, or this one, claim it at once. Its notes stay.
func (c *Claim) Release(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	var err error
	if c.doubt {
		err = c.refundOthers(ctx)
		c.doubt = false // once released, they may be another process's
	}
	return opError("claim", errors.Join(err, c.guard.ledger.Refund(ctx, c.receipt)))
}

// refundOthers refunds the entries that hold the claim beside the newest one:
// renewals whose answers were lost, and what could not be refunded. Within Hold
// of that one all are of this claim, since no other process was granted it.
func (c *Claim) refundOthers(ctx context.Context) (failed error) {
	batch, hold := c.request.batch(), c.request.Hold
	query := Query{Account: batch.Account, Key: batch.Key, Since: c.receipt.At.Add(-hold), Until: c.receipt.At.Add(hold)}
	for e, err := range c.guard.ledger.Entries(ctx, query) {
		if err != nil {
			return err
		}
		holds := e.Calls > 0 && (e.Method == claimMethod || e.Method == renewMethod)
		if !holds || e.At.Equal(c.receipt.At) {
			continue
		}
		err := c.guard.ledger.Refund(ctx, Receipt{Account: batch.Account, Key: batch.Key, ID: e.ID, At: e.At})
		failed = errors.Join(failed, err)
	}
	return failed
}
