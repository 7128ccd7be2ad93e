package cli

import (
	"errors"

	"github.com/ration-dev/ration/quota"
)

// unitsError is a *quota.NeverFitsError of a cost that --units gave.
type unitsError struct{ *quota.NeverFitsError }

func (e unitsError) Error() string { return e.Short() + "; lower --units, or raise the limit" }
func (e unitsError) Unwrap() error { return e.NeverFitsError }

// NeverFits makes the error of a spend that never fits say which flag to
// change. units reports whether --units gave the cost.
func NeverFits(err error, units bool) error {
	never, ok := errors.AsType[*quota.NeverFitsError](err)
	if !ok || !units {
		return err
	}
	if never.ConfiguredLimit > 0 || never.MostTogether() > 0 {
		return err // which says something else to change
	}
	return unitsError{never}
}
