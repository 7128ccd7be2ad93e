package main

import (
	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/cli"
)

// manCommand is hidden because only those who package ration need it.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write a manual page for each command",
		Long: "Man writes a manual page for each command into a folder, which it creates if\nneeded.\n\n" +
			exitCodes(),
		Example: "  ration man /usr/local/share/man/man1\n  ration man --help",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return cli.WriteManual(cmd.Root(), args[0]) },
	}
}
