package web

import (
	"context"
	"errors"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/catalog"
)

const shownPasses = 24

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
	s.Passes, errs[0] = r.catalog.RecentPasses(ctx, shownPasses)
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
