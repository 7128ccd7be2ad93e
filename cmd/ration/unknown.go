package main

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs"
)

// regionAdvice is advice for a region code, of which only few are near.
func regionAdvice(name string, known []string) string {
	if strings.EqualFold(name, "UK") && slices.Contains(known, "GB") {
		return "write GB"
	}
	return terminal.Advice(name, known)
}

// spellRegion returns a region as costs.yaml writes it, or a country code in
// capitals.
func spellRegion(name string, table *costs.Table) string {
	known := table.Regions()
	if i := slices.IndexFunc(known, func(region string) bool { return strings.EqualFold(region, name) }); i >= 0 {
		return known[i]
	}
	if len(name) == 2 && !table.HasFreeRegions() {
		return strings.ToUpper(name)
	}
	return name
}

var twoLetters = regexp.MustCompile(`^[A-Za-z]{2}$`)

// regionOf returns the region that --region names, as budgets and regions.yaml
// write it. It refuses an unknown one, as far as that can be known: charged to it, a
// call would pass by the budgets and floors of the region that was meant.
func regionOf(name string, table *costs.Table) (string, error) {
	name = spellRegion(name, table)
	var err error
	switch {
	case name == "", slices.Contains(table.Regions(), name):
	case table.HasFreeRegions():
		err = costs.CheckRegionName(name)
	case !twoLetters.MatchString(name):
		return "", &usageError{fmt.Errorf("--region %q: write two letters, such as IN", name)}
	default:
		err = jobs.CheckRegionCode(name)
	}
	if err != nil {
		return "", &usageError{fmt.Errorf("--region: %w", err)}
	}
	return name, nil
}

// unknownCommand is the error for a word that is none of cmd's commands.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	what := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if meant := terminal.Nearest(word, names); meant != "" {
		what = fmt.Sprintf("write %s %s, or %s", cmd.CommandPath(), meant, what)
	}
	return &usageError{fmt.Errorf("no command %q; %s", word, what)}
}

// noWords refuses any argument as an unknown command.
func noWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return nil
}

// flagError words what pflag says of a command line, and suggests the flag that
// was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		name := unknown.GetSpecifiedName()
		names := map[string]bool{}
		for flags := range slices.Values([]*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()}) {
			flags.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
		}
		what := fmt.Sprintf("see %s --help", cmd.CommandPath())
		if meant := terminal.Nearest(name, slices.Sorted(maps.Keys(names))); meant != "" {
			what = "write --" + meant
		}
		return &usageError{fmt.Errorf("unknown flag --%s; %s", name, what)}
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		switch flag.Value.Type() {
		case "int", "int64":
			return &usageError{fmt.Errorf("--%s %q: write a whole number", flag.Name, invalid.GetValue())}
		case "duration":
			return &usageError{fmt.Errorf("--%s: %w", flag.Name, errors.Unwrap(invalid))}
		}
	}
	return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}
