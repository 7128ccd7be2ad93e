package jobs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ration-dev/ration/quota"
)

// HasWaiting reports whether a step waits because it keeps failing.
func (r *Report) HasWaiting() bool {
	return slices.ContainsFunc(r.Regions, func(region RegionReport) bool { return len(region.Waiting) > 0 })
}

// Cause is why some regions are not done.
type Cause struct {
	Err     error // of the first region
	Regions []string
}

// Causes returns why regions are not done, the one with the lowest rank first.
func (r *Report) Causes(rank func(error) int) []Cause {
	var causes []Cause
	places := map[string]int{}
	for _, region := range r.Regions {
		if region.Err == nil || region.Outcome == Skipped {
			continue
		}
		errs := region.Waiting
		if _, waits := errors.AsType[*BackoffError](region.Err); !waits {
			errs = append([]error{region.Err}, errs...)
		}
		for _, err := range errs {
			if region.Outcome == Stopped && !errors.Is(err, quota.ErrRefused) {
				err = &StoppedError{Err: err}
			}
			name := causeName(err)
			place, known := places[name]
			if !known {
				place = len(causes)
				places[name], causes = place, append(causes, Cause{Err: err})
			}
			causes[place].Regions = append(causes[place].Regions, region.Region)
		}
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return rank(a.Err) - rank(b.Err) })
	return causes
}

// causeName returns what errors with the same cause have in common.
func causeName(err error) string {
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		return fmt.Sprintf("%q", []string{refused.Account, refused.Budget, string(refused.Reason)})
	}
	if waits, ok := errors.AsType[*BackoffError](err); ok {
		return fmt.Sprintf("%q", []string{waits.Name, waits.Reason})
	}
	return err.Error()
}
