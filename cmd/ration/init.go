package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
)

func (a *app) initCommand() *cobra.Command {
	var o setup.StarterOptions
	var host, command string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first costs.yaml",
		Long: `Init writes costs.yaml, with comments, into the folder of --config or the
current one, and prints the command to try next. That is all that guarded calls
need. With --schedule, --region or --command it adds a regions.yaml, for what
ration itself fetches or starts, also beside a costs.yaml of before. Without
--preset and --host it asks up to three questions on a terminal. It never
overwrites a file.

A preset that leaves figures to you asks for them: --variant, --host, --zone or
--limit. An upstream without a preset is named by its host, or by its URL if it
has a port or speaks plain http: --host http://vm:8080.

` + exitCodes(exitConfig),
		Example: `  ration init
  ration init --host api.example.com --limit 5000
  ration init --preset github
  ration init --preset youtube --region US --region IN
  ration init --schedule '0 */6 * * *' --command './fetch.sh {region}' --region north`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cmd.Flags().Changed("limit") && o.Limit <= 0 {
				return &cli.Error{Err: errors.New("--limit is more than 0")}
			}
			if o.Command, err = setup.CommandWords(command); err != nil {
				return &cli.Error{Err: err}
			}
			o.Host = host
			if o.API == "" {
				o.API, o.Host = host, ""
			}
			return a.init(&o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.API, "preset", "",
		"`name` of the upstream's preset (ration costs presets), or a word of it, such as github")
	flags.StringVar(&o.Variant, "variant", "", "`name` of the preset's variant")
	flags.StringVar(&host, "host", "", "the upstream's `host` or URL, without a preset or where one asks for it")
	flags.StringVar(&o.Zone, "zone", "", "time `zone` of the account, where the preset asks for it (default UTC)")
	flags.StringVar(&o.Account, "account", "",
		"the upstream's project or `account` whose quota it is (default my-project)")
	flags.Int64Var((*int64)(&o.Limit), "limit", 0,
		"limit in `units`: an hour's for an upstream without a preset (default 1000), or the one that the preset "+
			"asks for")
	flags.StringVar(&command, "command", "",
		"`program` that fetches, and its arguments, as in './fetch.sh {region}' (YouTube: the built-in steps)")
	flags.StringArrayVar(&o.Regions, "region", nil, "`name` of a region to fetch; may be repeated")
	flags.StringVar(&o.Schedule, "schedule", "", "when to fetch, as in `'0 */6 * * *'`")
	return cmd
}

func (a *app) init(o *setup.StarterOptions) error {
	given := cmp.Or(a.configDir, a.getenv("RATION_CONFIG"))
	dir := cmp.Or(given, ".")
	files, err := a.starterFiles(o, dir)
	if err != nil {
		return err
	}
	written, err := files.Write(dir)
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	next := "ration"
	if given != "" {
		next += " --config " + human.ShellQuote(given)
	}
	if next += " status"; files.Regions != "" {
		next = strings.TrimSuffix(next, "status") + "plan"
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"files": written, "next": next})
	}
	a.printf("wrote %s", strings.Join(written, " and "))
	if files.Note != "" {
		a.printf("%s", files.Note)
	}
	if files.Program != "" {
		a.printf("regions.yaml starts %s, which is yours to write: docs/programs.md", files.Program)
	}
	if files.Regions == "" && files.Host != "" {
		a.printf("ration exec -- PROGRAM guards a program that calls $RATION_URL/to/%s/...: docs/gateway.md",
			files.Host)
	}
	fmt.Fprintf(a.stdout, "next: %s\n", next)
	return nil
}

// starterFiles returns the files to write into a folder: regions.yaml alone if
// the options are about a schedule only and costs.yaml is there.
func (a *app) starterFiles(o *setup.StarterOptions, dir string) (*setup.Files, error) {
	costsIsThere := setup.CheckFree(dir, "costs.yaml")
	if o.API == "" && o.WantsRegions() && costsIsThere != nil {
		if err := setup.CheckFree(dir, "regions.yaml"); err != nil {
			return nil, &client.ConfigError{Err: err}
		}
		table, err := a.setup().Prices()
		if err != nil {
			return nil, err
		}
		files, err := setup.ForTable(table, *o)
		if err != nil {
			return nil, &cli.Error{Err: err}
		}
		return files, nil
	}
	if err := cmp.Or(costsIsThere, setup.CheckFree(dir, "regions.yaml")); err != nil {
		return nil, &client.ConfigError{Err: err}
	}
	if o.API == "" && a.interactive {
		if err := o.AskMissing(a.stdin, a.stderr); err != nil {
			return nil, &cli.Error{Err: err}
		}
	}
	files, err := setup.NewFiles(*o)
	if err != nil {
		return nil, &cli.Error{Err: err}
	}
	return files, nil
}
