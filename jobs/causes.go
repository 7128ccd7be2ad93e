package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// HasWaiting reports whether a step waits because it keeps failing.
func (r *Report) HasWaiting() bool {
	return slices.ContainsFunc(r.Regions, func(region RegionReport) bool { return len(region.Waiting) > 0 })
}

// Progress says how many regions are done, and names the others.
func (r *Report) Progress() string {
	done, left := 0, []string{}
	for _, region := range r.Regions {
		if region.Outcome == Complete || region.Outcome == Skipped {
			done++
		} else {
			left = append(left, region.Region)
		}
	}
	return fmt.Sprintf("%d of %s done (left: %s)", done, human.Count(len(r.Regions), "region"), strings.Join(left, " "))
}

// cause is why some regions are not done.
type cause struct {
	err     error // of the first region
	regions []string
}

// causes returns why regions are not done, the one with the lowest rank first.
func (r *Report) causes(rank func(error) int) []cause {
	var causes []cause
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
				places[name], causes = place, append(causes, cause{err: err})
			}
			causes[place].regions = append(causes[place].regions, region.Region)
		}
	}
	slices.SortStableFunc(causes, func(a, b cause) int { return rank(a.err) - rank(b.err) })
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

// maxCauses is how many causes a line has.
const maxCauses = 5

// DescribeCauses joins the causes in one line, each as describe describes
// it, the one with the lowest rank first. If there are several, it names
// their regions.
func (r *Report) DescribeCauses(rank func(error) int, describe func(error) string) string {
	causes := r.causes(rank)
	if len(causes) == 1 {
		return describe(causes[0].err)
	}
	var texts []string
	for _, c := range causes[:min(len(causes), maxCauses)] {
		texts = append(texts, strings.Join(c.regions, " ")+": "+describe(c.err))
	}
	if more := len(causes) - maxCauses; more > 0 {
		texts = append(texts, human.Count(more, "other cause"))
	}
	return strings.Join(texts, "; ")
}
