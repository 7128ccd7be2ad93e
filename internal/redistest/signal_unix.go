//go:build unix

package redistest

import (
	"syscall"
	"testing"
)

// Hang suspends the server: its connections stay open, and it does not reply.
func (s *Server) Hang(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// GoOn resumes a server that hangs.
func (s *Server) GoOn(t testing.TB) { s.signal(t, syscall.SIGCONT) }
