package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/internal/human"
)

// durationFlag is a flag that takes a duration as costs.yaml does.
type durationFlag struct {
	value *time.Duration
	parse func(string) (time.Duration, error)
}

func (f durationFlag) Set(text string) error {
	d, err := f.parse(text)
	if err == nil {
		*f.value = d
	}
	return err
}

func (f durationFlag) String() string {
	if f.value == nil || *f.value == 0 {
		return "" // help shows no default
	}
	return human.Exactly(*f.value)
}

func (f durationFlag) Type() string { return "duration" }

// DurationVar defines a flag such as --max-age: 24h, 7d.
func DurationVar(flags *pflag.FlagSet, value *time.Duration, name string, usage string) {
	flags.Var(durationFlag{value, human.ParseDuration}, name, usage)
}

// SecondsVar defines a flag whose natural unit is the second: 30s, 5m, 30.
// What value holds is the default.
func SecondsVar(flags *pflag.FlagSet, value *time.Duration, name string, usage string) {
	flags.Var(durationFlag{value, human.ParseSeconds}, name, usage)
}
