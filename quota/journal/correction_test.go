package journal_test

import (
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
)

// TestCorrectionOfAForgottenLog: a correction started from what a log held that
// had forgotten, and its first entry had the log restored. What the console
// showed of these calls was counted twice.
func TestCorrectionOfAForgottenLog(t *testing.T) {
	for _, isRestored := range []bool{false, true} { // by another host
		server := redistest.Start(t)
		ours, theirs := redisHost(t, server), redisHost(t, server)
		if n, err := calls(theirs.process(), 10); n != 10 {
			t.Fatal(n, err)
		}
		if n, err := calls(ours.process(), 20); n != 20 {
			t.Fatal(n, err)
		}
		server.Do(t, "flushall")
		if isRestored {
			if _, err := calls(theirs.process(), 1); err != nil {
				t.Fatal(err)
			}
		}
		g := ours.process()
		err := g.Correct(t.Context(), account, func() error {
			balances, err := g.AccountBalances(t.Context(), account)
			if err == nil && balances[0].Used < 30 {
				t.Errorf("restored by another host: %t; a correction starts from %d units; want 30 or more", isRestored, balances[0].Used)
			}
			return err
		})
		must(t, err)
	}
}
