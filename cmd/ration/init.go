package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/cmdline"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/jobs/starter"
)

func (a *app) initCommand() *cobra.Command {
	var o starter.Options
	var host, command string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first costs.yaml and regions.yaml",
		Long: `Init writes costs.yaml and regions.yaml, with comments, into the folder of
--config or the current one, and prints the command to try next. Without
--preset and --host it asks up to three questions on a terminal. It never
overwrites a file.

A preset that leaves figures to you asks for them: --variant, --host, --zone or
--limit. An upstream without a preset is named by its host.

` + exitCodes(exitConfig),
		Example: `  ration init
  ration init --preset youtube --region US --region IN
  ration init --preset github-rest --command ./fetch.sh --region north
  ration init --host api.example.com --limit 5000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if cmd.Flags().Changed("limit") && o.Limit <= 0 {
				return &cmdline.Error{Err: errors.New("--limit is more than 0")}
			}
			if o.Command, err = starter.CommandWords(command); err != nil {
				return &cmdline.Error{Err: err}
			}
			o.Host = host
			if o.API == "" {
				o.API, o.Host = host, ""
			}
			return a.init(&o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.API, "preset", "", "`name` of the upstream's preset (ration costs presets), or youtube for its latest")
	flags.StringVar(&o.Variant, "variant", "", "`name` of the preset's variant")
	flags.StringVar(&host, "host", "", "the upstream's `host`, without a preset or where one asks for it")
	flags.StringVar(&o.Zone, "zone", "", "time `zone` of the account, where the preset asks for it (default UTC)")
	flags.StringVar(&o.Account, "account", "", "the upstream's project or `account` whose quota it is (default my-project)")
	flags.Int64Var((*int64)(&o.Limit), "limit", 0, "limit in `units`: an hour's for an upstream without a preset (default 1000), or the one that the preset asks for")
	flags.StringVar(&command, "command", "", "`program` that fetches, and its arguments, as in './fetch.sh {region}' (YouTube: the built-in steps)")
	flags.StringArrayVar(&o.Regions, "region", nil, "`name` of a region to fetch; may be repeated")
	flags.StringVar(&o.Schedule, "schedule", "", "when to fetch, as in `'0 */6 * * *'`")
	return cmd
}

func (a *app) init(o *starter.Options) error {
	given := cmp.Or(a.configDir, a.getenv("RATION_CONFIG"))
	dir := cmp.Or(given, ".")
	if err := starter.CheckFree(dir); err != nil {
		return &client.ConfigError{Err: err}
	}
	if o.API == "" && a.interactive {
		if err := o.AskMissing(a.stdin, a.stderr); err != nil {
			return &cmdline.Error{Err: err}
		}
	}
	files, err := starter.NewFiles(*o)
	if err != nil {
		return &cmdline.Error{Err: err}
	}
	costsPath, regionsPath, err := files.Write(dir)
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	next := "ration plan"
	if given != "" {
		next = "ration --config " + textfmt.ShellQuote(given) + " plan"
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"files": []string{costsPath, regionsPath}, "next": next})
	}
	a.printf("wrote %s and %s", costsPath, regionsPath)
	if files.Note != "" {
		a.printf("%s", files.Note)
	}
	if files.Program != "" {
		a.printf("regions.yaml starts %s, which is yours to write: docs/programs.md", files.Program)
	}
	fmt.Fprintf(a.stdout, "next: %s\n", next)
	return nil
}
