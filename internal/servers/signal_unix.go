//go:build unix

package servers

import (
	"syscall"
	"testing"
)

// Hang suspends the server: its connections stay open, and it does not reply.
func (s *Redis) Hang(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// GoOn resumes a server that hangs.
func (s *Redis) GoOn(t testing.TB) { s.signal(t, syscall.SIGCONT) }
