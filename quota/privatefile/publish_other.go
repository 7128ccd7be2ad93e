//go:build !linux

package privatefile

import "errors"

// publish is not possible in one step.
func publish(string, string) error { return errors.ErrUnsupported }
