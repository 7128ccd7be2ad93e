package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/cli"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and how it was built",
		Long:    "Version prints the version and how it was built.\n\n" + exitCodes(),
		Example: "  ration version\n  ration version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

func (a *app) version() error {
	out := cli.ReadBuild()
	if a.json {
		return json.NewEncoder(a.stdout).Encode(out)
	}
	revision := out.Revision
	if out.Modified {
		revision += " with changes"
	}
	_, err := fmt.Fprintf(a.stdout, "ration %s (%s, %s, %s, %s)\n", out.Version, revision, out.Date, out.Go,
		out.Platform)
	return err
}
