package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// UnknownCommand is the error for a word that is none of cmd's commands.
func UnknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	what := fmt.Sprintf("see %s --help", cmd.CommandPath())
	if meant := strictyaml.Meant(word, names); meant != "" {
		what = fmt.Sprintf("write %s %s, or %s", cmd.CommandPath(), meant, what)
	}
	return &Error{fmt.Errorf("no command %q; %s", word, what)}
}

// NoWords refuses any argument as an unknown command.
func NoWords(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UnknownCommand(cmd, args[0])
	}
	return nil
}

// FlagError words what pflag says of a command line, and suggests the flag that
// was probably meant.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		name := unknown.GetSpecifiedName()
		names := map[string]bool{}
		for flags := range slices.Values([]*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()}) {
			flags.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
		}
		what := fmt.Sprintf("see %s --help", cmd.CommandPath())
		if meant := strictyaml.Meant(name, slices.Sorted(maps.Keys(names))); meant != "" {
			what = "write --" + meant
		}
		return &Error{fmt.Errorf("unknown flag --%s; %s", name, what)}
	}
	if invalid := invalidValue(err); invalid != nil {
		return invalid
	}
	return &Error{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
}

// invalidValue words an error of pflag about the value of a flag; it returns
// nil for other errors.
func invalidValue(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return nil
	}
	flag := invalid.GetFlag()
	switch flag.Value.Type() {
	case "int", "int64":
		return &Error{fmt.Errorf("--%s %q: write a whole number", flag.Name, invalid.GetValue())}
	case "bool":
		return &Error{fmt.Errorf("--%s %q: write true or false", flag.Name, invalid.GetValue())}
	case "duration":
		return &Error{fmt.Errorf("--%s: %w", flag.Name, errors.Unwrap(invalid))}
	}
	return nil
}
