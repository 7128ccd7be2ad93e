package durationflag_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
)

// TestUnits parses what each kind of flag takes for a bare number, a day and a typo.
func TestUnits(t *testing.T) {
	for _, test := range []struct {
		text                 string
		duration, forSeconds time.Duration // -1: an error
	}{
		{"5", -1, 5 * time.Second},
		{"90s", 90 * time.Second, 90 * time.Second},
		{"7d", 7 * 24 * time.Hour, 7 * 24 * time.Hour},
		{"7dd", -1, -1},
		{"", -1, -1},
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		var age, wait time.Duration
		durationflag.Var(flags, &age, "age", "")
		durationflag.SecondsVar(flags, &wait, "wait", "")
		if err := flags.Set("age", test.text); err != nil {
			age = -1
		}
		if err := flags.Set("wait", test.text); err != nil {
			wait = -1
		}
		if age != test.duration || wait != test.forSeconds {
			t.Errorf("%q is %s and %s; want %s and %s", test.text, age, wait, test.duration, test.forSeconds)
		}
	}
}
