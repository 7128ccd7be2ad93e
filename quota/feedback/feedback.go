// Package feedback reads from an upstream's answer what it says about its
// quota: that the day's is spent, that calls come too fast, or nothing. It
// knows the APIs of Google.
//
//	transport.Feedback = feedback.Google{Budget: budgetOf}.Feedback
package feedback

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/ration-dev/ration/quota"
)

// maxBody is how much of an answer's body is read. Google's errors have some
// two kilobytes.
const maxBody = 64 << 10

// Google reads the answers of Google's APIs. Its zero value is for the YouTube
// Data API with cooldowns of the whole account. It is safe for concurrent use.
type Google struct {
	// Zone is where the upstream's day ends; nil is America/Los_Angeles, as
	// "daily quotas reset at midnight Pacific Time"
	// (developers.google.com/youtube/v3/determine_quota_cost, 2026-11-20).
	Zone *time.Location

	// Budget names the budget that a cooldown is for, by the call and by the
	// upstream's bucket: "default", or the short name of the quota metric,
	// such as "search_list". nil, and "", is the whole account.
	Budget func(call quota.Call, bucket string) string

	// Now is a clock for tests; nil is time.Now.
	Now func() time.Time
}

// Feedback is for quota.Transport.Feedback. A day's quota that is spent is a
// cooldown until quota.DefaultMargin after the next midnight; within that
// margin of a midnight the day that ends is meant, since clocks differ. Calls
// that come too fast are one for as long as Classify says, and transient; an
// outage is transient. Everything else is the zero Verdict: a bad request, a key that is not allowed, and a
// limit of 0, which no wait ever lifts.
//
// It reads the body of an error, at most 64 KB, and puts an equal one back.
func (g Google) Feedback(call quota.Call, resp *http.Response) quota.Verdict {
	if resp == nil || resp.StatusCode < http.StatusBadRequest {
		return quota.Verdict{}
	}
	answer := Classify(resp.StatusCode, resp.Header, peek(resp))
	now := time.Now
	if g.Now != nil {
		now = g.Now
	}
	verdict := quota.Verdict{Reason: answer.Reason}
	switch answer.Class {
	case Exhausted:
		verdict.Until = quota.Daily(g.zone()).Day(now()).Opens
	case SlowDown: // a retry waits for the cooldown's end
		verdict.Until, verdict.Transient, verdict.After = now().Add(answer.RetryAfter).UTC(), true, time.Microsecond
	case Transient:
		return quota.Verdict{Transient: true, After: answer.RetryAfter}
	default:
		return quota.Verdict{}
	}
	if g.Budget != nil {
		verdict.Budget = g.Budget(call, answer.Bucket)
	}
	return verdict
}

func (g Google) zone() *time.Location {
	if g.Zone != nil {
		return g.Zone
	}
	if zone, err := time.LoadLocation("America/Los_Angeles"); err == nil {
		return zone
	}
	// A host without time zones: an hour late in summer, never early.
	return time.FixedZone("PST", -8*60*60)
}

// peek returns the beginning of a response's body, and puts back one that
// reads the same: those bytes, and then what follows, or the error that did.
func peek(resp *http.Response) []byte {
	if resp.Body == nil {
		return nil
	}
	body := resp.Body
	begin, err := io.ReadAll(io.LimitReader(body, maxBody))
	rest := io.Reader(body)
	if err != nil {
		rest = failed{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), rest), body}
	return begin
}

// failed is a reader that has failed for good.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
