package ledgertest_test

import "testing"

// TestExampleRun runs what the example shows.
func TestExampleRun(t *testing.T) { testContract(t) }
