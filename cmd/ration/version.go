package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
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

// build says how this program was built.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Date     string `json:"date"`     // of the revision
	Modified bool   `json:"modified"` // built from files that the revision does not have
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// readBuild returns what the linker recorded; "-" stands for what is unknown.
func readBuild() build {
	out := build{"devel", "-", "-", false, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return out
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		out.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Revision = s.Value
		case "vcs.time":
			out.Date = s.Value
		case "vcs.modified":
			out.Modified = s.Value == "true"
		}
	}
	return out
}

func (a *app) version() error {
	out := readBuild()
	if a.json {
		return json.NewEncoder(a.stdout).Encode(out)
	}
	revision := out.Revision
	if out.Modified {
		revision += " with changes"
	}
	_, err := fmt.Fprintf(a.stdout, "ration %s (%s, %s, %s, %s)\n", out.Version, revision, out.Date, out.Go, out.Platform)
	return err
}
