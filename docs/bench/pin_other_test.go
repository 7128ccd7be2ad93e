//go:build !linux

package bench

import "testing"

// pin leaves the choice of cores to the system.
func pin(testing.TB, int) {}
