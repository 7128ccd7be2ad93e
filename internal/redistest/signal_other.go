//go:build !unix

package redistest

import "testing"

// Hang fails the test: this system cannot suspend a process.
func (s *Server) Hang(t testing.TB) { t.Fatal("redistest: a process cannot be stopped here") }

// GoOn fails the test.
func (s *Server) GoOn(t testing.TB) { s.Hang(t) }
