package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs/starter"
)

func (a *app) initCommand() *cobra.Command {
	var o starter.Options
	var host, command string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first costs.yaml and regions.yaml",
		Long: `Init writes costs.yaml and regions.yaml, with comments, into the folder of
--config or the present one, and prints the command to try next. Without
--preset and --host it asks three questions. It never overwrites a file.

A preset that leaves figures to you asks for them: --variant, --host, --zone or
--limit. An upstream without a preset is named by its host.

` + exitCodes(exitConfig),
		Example: `  ration init
  ration init --preset youtube --region US --region IN
  ration init --preset github-rest --command ./fetch.sh --region north
  ration init --host api.example.com --limit 5000`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			o.Command, o.Host = strings.Fields(command), host
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
	flags.StringVar(&o.Zone, "zone", "", "time `zone` of the account, where the preset asks for it (UTC)")
	flags.StringVar(&o.Account, "account", "", "the upstream's project or `account` whose quota it is (my-project)")
	flags.Int64Var((*int64)(&o.Limit), "limit", 0, "`units`: an hour's, of an upstream without a preset (1000), or where the preset asks for it")
	flags.StringVar(&command, "command", "", "`program` that fetches, and its arguments, as in './fetch.sh {region}' (YouTube: the built-in steps)")
	flags.StringArrayVar(&o.Regions, "region", nil, "`name` of a region to fetch; may be repeated")
	flags.StringVar(&o.Schedule, "schedule", "", "when to fetch, as in `'0 */6 * * *'`")
	return cmd
}

func (a *app) init(o *starter.Options) error {
	dir := cmp.Or(a.env(a.configDir, "RATION_CONFIG"), ".")
	paths := map[string]string{"costs.yaml": filepath.Join(dir, "costs.yaml"), "regions.yaml": filepath.Join(dir, "regions.yaml")}
	for _, path := range paths {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return &configError{cmp.Or(err, fmt.Errorf("%s is there already; move it, or name another folder with --config", path))}
		}
	}
	if o.API == "" {
		if err := a.ask(o); err != nil {
			return err
		}
	}
	if o.Limit < 0 {
		return &usageError{errors.New("--limit is more than 0")}
	}
	files, err := starter.Make(*o)
	if err != nil {
		return &usageError{initAdvice(o, err)}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &configError{err}
	}
	for name, content := range map[string]string{"costs.yaml": files.Costs, "regions.yaml": files.Regions} {
		if err := writeNew(paths[name], content); err != nil {
			return &configError{err}
		}
	}
	next := "ration plan"
	if a.configDir != "" {
		next = "ration --config " + shellWord(a.configDir) + " plan"
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"files": []string{paths["costs.yaml"], paths["regions.yaml"]}, "next": next})
	}
	a.say("wrote %s and %s", paths["costs.yaml"], paths["regions.yaml"])
	if files.Program != "" {
		a.say("regions.yaml starts %s, which is yours to write: docs/programs.md", files.Program)
	}
	fmt.Fprintf(a.stdout, "next: %s\n", next)
	return nil
}

// initAdvice adds to an error of a preset that asks for figures how to give them.
func initAdvice(o *starter.Options, err error) error {
	if _, asks := errors.AsType[*starter.AskError](err); !asks {
		return err
	}
	var variants []string
	for _, p := range costs.Presets() {
		if p.Name == o.API {
			for _, v := range p.Variants {
				variants = append(variants, v.Name)
			}
		}
	}
	advice := "give them with --host, --zone or --limit"
	if len(variants) > 0 {
		advice = "give --variant " + strings.Join(variants, ", or ") + ", and --host or --zone where it asks"
	}
	return fmt.Errorf("%w\n%s", err, advice)
}

// ask asks what the flags do not say.
func (a *app) ask(o *starter.Options) error {
	var names []string
	for _, p := range costs.Presets() {
		names = append(names, p.Name)
	}
	in := bufio.NewReader(a.stdin)
	question := func(format string, args ...any) string {
		fmt.Fprintf(a.stderr, format+" ", args...)
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(a.stderr)
		}
		return strings.TrimSpace(line)
	}
	o.API = question("Which API: a preset (%s), or your upstream's host?", strings.Join(names, ", "))
	if o.API == "" {
		return &usageError{errors.New("name the upstream: --preset youtube, or --host api.example.com")}
	}
	o.Account = question("Whose quota is it, the upstream's project or account? [my-project]")
	if strings.HasPrefix(o.API, "youtube") {
		o.Regions = strings.Fields(strings.ReplaceAll(question("Which regions, by country code? [US]"), ",", " "))
	} else {
		o.Command = strings.Fields(question("Which program fetches, with its arguments? [./fetch.sh {region}]"))
	}
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, content)
	return errors.Join(err, file.Close())
}

// shellWord quotes a word for a shell.
func shellWord(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-", r)
	}) {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
