// This file reads what is written on a command line beside cobra:
// commands that have only commands, times, accounts and budgets. It says what
// is wrong with a command line, and what was probably meant.

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Error is a malformed command line.
type Error struct{ Err error }

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Group is a command that has only commands. A word that is none of them is an
// Error, and not a page of help.
func Group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		return cmd.Help()
	}
	for _, command := range commands {
		command.Args = Args(command.Args)
	}
	cmd.AddCommand(commands...)
	return cmd
}

// Help is cobra's help command, except that an unknown command is an Error
// instead of a page of help.
func Help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			found, _, err := root.Find(args)
			if err != nil || found == root && len(args) > 0 {
				return UnknownCommand(root, args[0])
			}
			return found.Help()
		},
	}
}

// AddCompletion adds cobra's completion command, except that an unknown shell
// is an Error instead of a page of help. The output of root must be set.
func AddCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			shells := cmd.Commands()
			cmd.RemoveCommand(shells...)
			cmd.Args = nil
			Group(cmd, shells...)
		}
	}
}

// CheckFlags returns an Error for a flag that is given an empty text. More
// often than not that is an unset variable, and would be taken for no flag: for
// all accounts in place of one.
func CheckFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" {
			err = &Error{fmt.Errorf("--%s: it is empty; give a value, or leave the flag out", f.Name)}
		}
	})
	return err
}

// Args makes a wrong number of arguments an Error.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		if check(cmd, args) == nil {
			return nil
		}
		usage := strings.TrimSuffix(cmd.UseLine(), " [flags]")
		if !strings.Contains(cmd.Use, " ") {
			return &Error{fmt.Errorf("%s takes no argument, and got %q; see %[1]s --help", cmd.CommandPath(), args[0])}
		}
		return &Error{fmt.Errorf("write %s; see %s --help", usage, cmd.CommandPath())}
	}
}

// UsageTemplate makes a template of cobra wrap the texts of flags, at the width
// of the terminal or 100 columns.
func UsageTemplate(template string, width int) string {
	if width == 0 || width > 100 {
		width = 100
	}
	return strings.ReplaceAll(template, ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", width))
}
