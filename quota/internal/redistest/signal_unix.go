//go:build unix

package redistest

import (
	"syscall"
	"testing"
)

// Hang stops the server's process, so that its connections stay and nobody answers.
func (s *Server) Hang(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// GoOn lets a server that hangs go on.
func (s *Server) GoOn(t testing.TB) { s.signal(t, syscall.SIGCONT) }
