//go:build !linux

package redisledger_test

import "testing"

// pin does nothing: the system chooses the cores.
func pin(testing.TB, int) {}
