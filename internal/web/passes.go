package web

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

const shownPasses = 24

// passRow is a pass and what became of it.
type passRow struct {
	catalog.PassSummary
	Outcome, Detail string
	IsKnown         bool        // the log has what it spent
	Calls, Units    quota.Units // of its region, of any program, from its tick to its end or the next one
	next            time.Time   // tick of the next pass of the region; zero if there is none
}

// Latest returns when the pass ended, or when its last page came.
func (p *passRow) Latest() time.Time {
	if p.FinishedAt.IsZero() {
		return p.FetchedAt
	}
	return p.FinishedAt
}

// has reports whether a call at a time is of the pass.
func (p *passRow) has(at time.Time) bool {
	isOver := !p.FinishedAt.IsZero() && at.After(p.FinishedAt)
	isNext := !p.next.IsZero() && !at.Before(p.next)
	return !at.Before(p.Tick) && !isOver && !isNext
}

// passIndex has the passes of each region.
type passIndex map[string][]*passRow

func newPassIndex(s *snapshot) passIndex {
	index := passIndex{}
	for _, p := range s.Passes {
		index[p.Region] = append(index[p.Region], p)
	}
	return index
}

// add adds an entry to the pass that it is of.
func (index passIndex) add(e *quota.Entry) {
	for _, p := range index[e.Caller.Region] {
		if p.has(e.At) {
			p.Calls, p.Units = p.Calls+e.Calls, p.Units+e.Units
		}
	}
}

// readPasses reads the passes and failures of the catalogue. Without one there
// are none.
func (r *reader) readPasses(ctx context.Context, s *snapshot) {
	if r.catalog == nil && (r.options.Catalog == "" || r.updates%16 != 0) {
		return
	}
	if r.catalog == nil {
		store, err := catalog.OpenExisting(r.options.Catalog, nil)
		if err != nil {
			return // there is none yet; run and serve say what is wrong with one
		}
		r.catalog = store
	}
	var errs [2]error
	var passes []catalog.PassSummary
	passes, errs[0] = r.catalog.RecentPasses(ctx, shownPasses)
	next := map[string]time.Time{}
	for i := range passes {
		p := &passRow{PassSummary: passes[i], next: next[passes[i].Region]}
		s.Passes, next[p.Region] = append(s.Passes, p), p.Tick
	}
	s.Failures, errs[1] = r.catalog.Failures(ctx)
	for i := range s.Failures {
		s.Failures[i].Reason = r.options.Redact(s.Failures[i].Reason)
	}
	if errors.Join(errs[:]...) != nil { // it may have been replaced
		r.close()
	}
}

// claimPause is how long claims are shown before they are read again: that
// takes a question to the ledger for each region.
const claimPause = 10 * time.Second

// readClaims reads which hosts have the current passes, if regions.yaml and the
// ledger can be read.
func (r *reader) readClaims(ctx context.Context, s *snapshot) {
	if r.snapshot != nil {
		s.Claims = r.snapshot.Claims
	}
	if r.options.Regions == nil || s.Err != nil || time.Since(r.claimsAt) < claimPause {
		return
	}
	r.claimsAt = time.Now()
	regions, err := r.options.Regions(r.client.Table())
	if err != nil {
		return
	}
	if claims, err := jobs.PassClaims(ctx, r.client.Guard(), r.client.Table(), regions, time.Now()); err == nil {
		s.Claims = claims
	}
}

// setOutcomes says of the passes what became of them: what a newer pass of the
// region leaves behind is unfinished, and else it is stopped, failing or in
// progress.
func setOutcomes(s *snapshot) {
	newer := map[string]bool{}
	for _, p := range s.Passes {
		p.Outcome = "unfinished"
		switch {
		case !p.FinishedAt.IsZero():
			p.Outcome = "complete"
		case !newer[p.Region]:
			p.Outcome, p.Detail = outcomeOf(s, p.Region, p.StartedAt)
		}
		newer[p.Region] = true
		p.IsKnown = isInLogs(s, p)
	}
	s.Claims = slices.DeleteFunc(slices.Clone(s.Claims), func(c jobs.PassClaim) bool {
		return c.Until.IsZero() && slices.ContainsFunc(s.Passes, func(p *passRow) bool {
			return p.Region == c.Region && p.Tick.Equal(c.Tick) && p.Outcome == "complete"
		})
	})
}

// isInLogs reports whether the logs go back to the first page of a pass, before
// which its first call was charged: a ledger may have lost what was before.
func isInLogs(s *snapshot, p *passRow) (is bool) {
	first := p.StartedAt.Add(time.Second) // the clock of this host may be behind the ledger's
	for _, account := range s.Accounts {
		log := account.Log
		if s.At.Sub(p.Tick) > time.Duration(log.Keeps)*time.Second || log.Oldest != nil && log.Oldest.After(first) {
			return false
		}
		is = is || log.Oldest != nil
	}
	return is
}

// outcomeOf returns what keeps the newest pass of a region from its end,
// and why.
func outcomeOf(s *snapshot, region string, started time.Time) (outcome, detail string) {
	for _, f := range s.Failures {
		if f.Region == region && f.Until.After(s.At) {
			return "failing", f.Name + ": " + f.Reason
		}
	}
	for _, group := range s.Refusals {
		for _, r := range group.own {
			if r.Region == region && r.At.After(started) && r.RetryAt.After(s.At) {
				return "stopped", r.Message
			}
		}
	}
	return "unfinished", ""
}
