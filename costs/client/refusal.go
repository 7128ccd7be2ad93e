package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

const refusalFile = "last-refusal.json"

// Refusal is a refusal as it is stored in the state folder.
type Refusal struct {
	At              time.Time   `json:"at"` // by the ledger's clock
	Ledger          string      `json:"ledger"`
	Account         string      `json:"account"`
	Budget          *string     `json:"budget"`           // null: a cooldown of the whole account
	Key             *string     `json:"key,omitempty"`    // of the call
	OfKey           bool        `json:"of_key,omitempty"` // the limit, or the cooldown, is that of the key alone
	Method          string      `json:"method"`
	Region          string      `json:"region"` // "-" if the call had none, as for Job and Lane
	Job             string      `json:"job"`
	Lane            string      `json:"lane"`
	Reason          string      `json:"reason"`
	Detail          *string     `json:"detail"`
	Measure         string      `json:"measure"`
	Units           quota.Units `json:"units"` // the cost of the call; 0 if unknown
	Needed          quota.Units `json:"needed"`
	Remaining       quota.Units `json:"remaining"`
	Kept            quota.Units `json:"kept"`
	Limit           quota.Units `json:"limit"`
	ConfiguredLimit quota.Units `json:"own_limit,omitempty"` // if Limit is a lower one of another configuration
	RetryAt         time.Time   `json:"retry_at,omitzero"`
	Message         string      `json:"message"`
	Host            string      `json:"host,omitempty"` // of a refusal that the ledger has, instead of the state folder
}

// RefusedError returns the refusal as the guard returned it, except for Used,
// LimitUntil and Ahead, which are not stored.
func (r *Refusal) RefusedError() *quota.RefusedError {
	named := func(s string) string {
		if s == "-" {
			return ""
		}
		return s
	}
	refused := &quota.RefusedError{Account: r.Account, Method: r.Method, Units: r.Units, Reason: quota.Reason(r.Reason),
		Caller: quota.Caller{Region: named(r.Region), Job: named(r.Job), Lane: named(r.Lane)},
		Limit:  r.Limit, ConfiguredLimit: r.ConfiguredLimit, Remaining: r.Remaining, Kept: r.Kept, Needed: r.Needed,
		RetryAt: r.RetryAt, RetryAfter: r.RetryAt.Sub(r.At)}
	if r.Measure != quota.ByUnits.String() {
		refused.Measure = quota.Measure(r.Measure)
	}
	if r.Budget != nil {
		refused.Budget = *r.Budget
	}
	if r.Key != nil {
		refused.Key, refused.OfKey = *r.Key, r.OfKey
	}
	if r.Detail != nil {
		refused.Detail = *r.Detail
	}
	return refused
}

// recordRefusal writes the refusal in a decision of the guard to the state
// folder, for ration why, and counts it for the history. It writes at most once
// a second and when the Client is closed. Few go to the ledger, too: see
// shared. It is a no-op if the call was granted. That the folder cannot be
// written is not an error of the call; see RefusalError.
func (c *Client) recordRefusal(d quota.Decision) {
	refused, ok := errors.AsType[*quota.RefusedError](d.Err)
	if !ok {
		return
	}
	c.refusals.record(c, refused, true)
	c.shared.record(c.guard, refused, RefusedAt(refused, c.options.Now))
}

// RepeatRefusal writes a refusal again that the Guard has returned before, as
// the last one, without counting it again. It may be called after Close.
func (c *Client) RepeatRefusal(err error) { c.refusals.record(c, err, false) }

// RefusalError returns why the last refusal could not be written to the state
// folder, or nil.
func (c *Client) RefusalError() error {
	c.refusals.mu.Lock()
	defer c.refusals.mu.Unlock()
	if c.refusals.failed == nil {
		return nil
	}
	return configError("the refusal is not recorded for ration why: %w; "+
		"make the state folder writable, or name another with --state", c.refusals.failed)
}

// LastRefusal returns the last refusal in a state folder, or nil if there is
// none. It returns a *ConfigError if the file cannot be read.
func LastRefusal(state string) (*Refusal, error) {
	path := filepath.Join(state, refusalFile)
	text, err := files.ReadFile(path, maxStateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, configError("last refusal: %w; make it readable, or remove it", err)
	}
	r := &Refusal{}
	err = json.Unmarshal(text, r)
	saysWhy := r.Budget != nil || r.Reason == string(quota.ReasonCooldown)
	isWhole := r.Account != "" && r.Method != "" && saysWhy
	if err != nil || !isWhole {
		return nil, configError("%s is malformed; remove it", path)
	}
	return r, nil
}

// refusals writes the last refusal of a Client, and counts all of them. It is
// safe for concurrent use.
type refusals struct {
	mu      sync.Mutex
	written time.Time
	pending *quota.RefusedError    // newer than what was written
	counts  map[RefusalCount]int64 // not written yet; the keys' Count is 0
	timer   *time.Timer            // writes what is pending
	closed  bool                   // the Client is: nothing may be pending
	failed  error                  // of the last write
	recent  recentRefusals
}

// writePause is the shortest time between two writes by record: a program may
// be refused a million times a second.
const writePause = time.Second

// record writes the refusal in err, or keeps it pending until writePause
// is over.
func (r *refusals) record(c *Client, err error, count bool) {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok {
		return
	}
	r.recent.add(refused)
	r.mu.Lock()
	defer r.mu.Unlock()
	if count {
		r.count(c, refused)
	}
	since := time.Since(r.written)
	if since >= writePause || r.closed {
		r.write(c, refused)
		return
	}
	if r.pending == nil {
		r.timer = time.AfterFunc(writePause-since, func() { r.flush(c) })
	}
	r.pending = refused
}

// flush writes the pending refusal, if any.
func (r *refusals) flush(c *Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending != nil {
		r.timer.Stop()
		r.write(c, r.pending)
	}
}

// close writes what is pending, and from then on all refusals at once.
func (r *refusals) close(c *Client) {
	r.flush(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// write writes a refusal. The caller has locked r.
func (r *refusals) write(c *Client, refused *quota.RefusedError) {
	r.written, r.pending = time.Now(), nil
	if c.state == "" {
		clear(r.counts)
		return
	}
	if r.failed = files.MkdirAll(c.state); r.failed != nil {
		clear(r.counts)
		return
	}
	r.writeCounts(c)
	text, err := json.Marshal(c.newRefusal(refused))
	if err == nil {
		err = files.Replace(filepath.Join(c.state, refusalFile), append(text, '\n'), false)
	}
	r.failed = err
}

func newRefusal(r *quota.RefusedError, ledger string, now func() time.Time) *Refusal {
	return &Refusal{
		At: human.JSONTime(RefusedAt(r, now)), Ledger: ledger,
		Account: r.Account, Budget: human.Optional(r.Budget), Key: human.Optional(r.Key), OfKey: r.OfKey,
		Method: r.Method,
		Region: cmp.Or(r.Caller.Region, "-"), Job: cmp.Or(r.Caller.Job, "-"), Lane: cmp.Or(r.Caller.Lane, "-"),
		Reason: string(r.Reason), Detail: human.Optional(r.Detail), Measure: r.Measure.String(),
		Units: r.Units, Needed: r.Needed, Remaining: r.Remaining, Kept: r.Kept, Limit: r.Limit,
		ConfiguredLimit: r.ConfiguredLimit,
		RetryAt:         human.JSONTime(r.RetryAt), Message: r.Error(),
	}
}

// RefusedAt returns when a call was refused, on the ledger's clock. If RetryAt
// is further away than a time.Duration can express, it returns now() instead; a
// nil now means time.Now.
func RefusedAt(r *quota.RefusedError, now func() time.Time) time.Time {
	if r.RetryAfter < math.MaxInt64 {
		return r.RetryAt.Add(-r.RetryAfter)
	}
	if now == nil {
		now = time.Now
	}
	return now()
}
