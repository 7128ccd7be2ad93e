package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
)

// TestTheCommandThatIsNamedLifts: for an account "my project" the command that
// messages named lifted nothing, and for a budget whose name two accounts have
// it was an error.
func TestTheCommandThatIsNamedLifts(t *testing.T) {
	account, budget, dash := "my project", "an hour", "-x"
	quoted := human.ShellQuote
	for _, c := range []struct {
		budget *string
		want   string
	}{
		{nil, "ration cooldown clear --account " + quoted(account)},
		{&budget, "ration cooldown clear " + quoted(budget) + " --account " + quoted(account)},
		{&dash, "ration cooldown clear --account " + quoted(account) + " -- -x"},
	} {
		var text bytes.Buffer
		report.WriteStill(&text, []report.Cooldown{{Account: account, Budget: c.budget, Until: time.Now()}}, time.Now())
		if !strings.HasSuffix(text.String(), "; "+c.want+" lifts that\n") {
			t.Errorf("%q; want %s", text.String(), c.want)
		}
	}
}
