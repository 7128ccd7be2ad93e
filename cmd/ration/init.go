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
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/starter"
	"github.com/ration-dev/ration/quota/privatefile"
)

func (a *app) initCommand() *cobra.Command {
	var o starter.Options
	var host, command string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a first costs.yaml and regions.yaml",
		Long: `Init writes costs.yaml and regions.yaml, with comments, into the folder of
--config or the present one, and prints the command to try next. Without
--preset and --host it asks up to three questions. It never overwrites a file.

A preset that leaves figures to you asks for them: --variant, --host, --zone or
--limit. An upstream without a preset is named by its host.

` + exitCodes(exitConfig),
		Example: `  ration init
  ration init --preset youtube --region US --region IN
  ration init --preset github-rest --command ./fetch.sh --region north
  ration init --host api.example.com --limit 5000`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) (err error) {
			if o.Command, err = commandWords(command); err != nil {
				return err
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
	flags.StringVar(&o.Zone, "zone", "", "time `zone` of the account, where the preset asks for it (UTC)")
	flags.StringVar(&o.Account, "account", "", "the upstream's project or `account` whose quota it is (my-project)")
	flags.Int64Var((*int64)(&o.Limit), "limit", 0, "`units`: an hour's, of an upstream without a preset (1000), or where the preset asks for it")
	flags.StringVar(&command, "command", "", "`program` that fetches, and its arguments, as in './fetch.sh {region}' (YouTube: the built-in steps)")
	flags.StringArrayVar(&o.Regions, "region", nil, "`name` of a region to fetch; may be repeated")
	flags.StringVar(&o.Schedule, "schedule", "", "when to fetch, as in `'0 */6 * * *'`")
	return cmd
}

func (a *app) init(o *starter.Options) error {
	given := cmp.Or(a.configDir, a.getenv("RATION_CONFIG"))
	dir := cmp.Or(given, ".")
	costsPath, regionsPath := filepath.Join(dir, "costs.yaml"), filepath.Join(dir, "regions.yaml")
	for _, path := range []string{costsPath, regionsPath} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return &client.ConfigError{Err: cmp.Or(err, fmt.Errorf("%s is there already; move it, or name another folder with --config", path))}
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
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = privatefile.CheckFolder(dir) // as the next command will
	}
	if err == nil {
		err = writeNew(costsPath, files.Costs)
	}
	if err == nil {
		err = writeNew(regionsPath, files.Regions)
	}
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	next := "ration plan"
	if given != "" {
		next = "ration --config " + shellWord(given) + " plan"
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"files": []string{costsPath, regionsPath}, "next": next})
	}
	a.say("wrote %s and %s", costsPath, regionsPath)
	if files.Program != "" {
		a.say("regions.yaml starts %s, which is yours to write: docs/programs.md", files.Program)
	}
	fmt.Fprintf(a.stdout, "next: %s\n", next)
	return nil
}

// commandWords splits a command at its spaces.
func commandWords(command string) ([]string, error) {
	if strings.ContainsAny(command, `'"`) {
		return nil, &usageError{fmt.Errorf("command %s: it is split at spaces and its quotes are not read; write a word with a space into regions.yaml afterwards", command)}
	}
	return strings.Fields(command), nil
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
	if o.Account == "" {
		o.Account = question("Whose quota is it, the upstream's project or account? [my-project]")
	}
	var err error
	switch {
	case len(o.Command) > 0:
	case !strings.HasPrefix(o.API, "youtube"):
		o.Command, err = commandWords(question("Which program fetches, with its arguments? [./fetch.sh {region}]"))
	case len(o.Regions) == 0:
		o.Regions = strings.Fields(strings.ToUpper(strings.ReplaceAll(question("Which regions, by country code? [US]"), ",", " ")))
	}
	return err
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

// shellWord quotes a word for a shell, if necessary.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
	switch {
	case strings.Trim(word, plain) == "":
		return word
	case runtime.GOOS == "windows": // cmd knows no other quotes
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
