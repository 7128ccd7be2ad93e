//go:build !unix

package servers

import "testing"

// Hang fails the test: this system cannot suspend a process.
func (s *Redis) Hang(t testing.TB) { t.Fatal("redistest: a process cannot be stopped here") }

// GoOn fails the test.
func (s *Redis) GoOn(t testing.TB) { s.Hang(t) }
