package journal_test

import (
	"testing"
	"time"
)

// TestIdleHostNotesItsOwnCalls: a host that made no call for a part of its
// window had forgotten calls that its last answer counted, when the ledger was
// lost. They were noted as those of others: 402 in use where 2 would be. Those
// of others that it heard of still are.
func TestIdleHostNotesItsOwnCalls(t *testing.T) {
	s := share(t)
	s.spend("ours", 400)
	s.Add(2 * time.Hour)
	s.spend("theirs", 30)
	s.Add(8 * time.Hour)
	s.spend("ours", 1)
	s.Add(18 * time.Hour)
	for range 2 {
		s.lose()
		s.spend("ours", 1)
	}
	s.mustBeInUse(1 + 30 + 2)
}
