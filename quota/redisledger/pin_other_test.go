//go:build !linux

package redisledger_test

import "testing"

// pin leaves the choice of cores to the system.
func pin(testing.TB, int) {}
