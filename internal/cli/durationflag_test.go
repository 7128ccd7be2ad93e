package cli_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/internal/cli"
)

// TestBareNumberIsSecondsOnlyForAWait parses what each kind of flag takes for a
// bare number, a day and a typo.
func TestBareNumberIsSecondsOnlyForAWait(t *testing.T) {
	for _, test := range []struct {
		text      string
		age, wait time.Duration // -1: an error
	}{
		{"5", -1, 5 * time.Second},
		{"90s", 90 * time.Second, 90 * time.Second},
		{"7d", 7 * 24 * time.Hour, 7 * 24 * time.Hour},
		{"7dd", -1, -1},
		{"", -1, -1},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		var gotAge, gotWait time.Duration
		cli.DurationVar(flags, &gotAge, "age", "")
		cli.SecondsVar(flags, &gotWait, "wait", "")
		if err := flags.Set("age", test.text); err != nil {
			gotAge = -1
		}
		if err := flags.Set("wait", test.text); err != nil {
			gotWait = -1
		}
		if gotAge != test.age || gotWait != test.wait {
			t.Errorf("%q is %s and %s; want %s and %s", test.text, gotAge, gotWait, test.age, test.wait)
		}
	}
}
