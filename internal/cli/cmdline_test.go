package cli_test

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/gateway"
)

// isError reports whether an error is a malformed command line and says a text.
func isError(err error, text string) bool {
	_, ok := errors.AsType[*cli.Error](err)
	return ok && strings.Contains(err.Error(), text)
}

// TestSinceTakesAgesDaysAndTimes reads how long ago, days and times.
func TestSinceTakesAgesDaysAndTimes(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		text, failed string
		want         time.Time
	}{
		{"", "", time.Time{}},
		{"0", "", time.Time{}},
		{"36h", "", now.Add(-36 * time.Hour)},
		{"7d", "", now.AddDate(0, 0, -7)},
		{"36500d", "", time.Unix(0, 0)},
		{"2026-11-19", "", time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC)},
		{"2026-11-19T09:00:00+01:00", "", time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)},
		{"1960-01-01", "in UTC its year is 1960", time.Time{}},
		{"1970-01-01T00:00:00+01:00", "in UTC its year is 1969", time.Time{}},
		{"yesterday", "", now.Truncate(24*time.Hour).AddDate(0, 0, -1)},
		{"today", "", now.Truncate(24 * time.Hour)},
		{"tomorrow", `--since "tomorrow": write how long, such as 24h or 7d, a day`, time.Time{}},
		{"7", `--since "7": write how long`, time.Time{}},
		{"-1h", "write how long", time.Time{}},
	} {
		got, err := cli.ParseMoment("--since", c.text, now)
		if c.failed != "" {
			if !isError(err, c.failed) {
				t.Errorf("%q: %v; want %q", c.text, err, c.failed)
			}
		} else if err != nil || !got.Equal(c.want) {
			t.Errorf("%q is %s, %v; want %s", c.text, got, err, c.want)
		}
	}
	if _, err := cli.ParseTime("--at", "9950-01-01T00:00:00Z", cli.LastNowYear); !isError(err,
		"write a time from 1970 to 9900") {
		t.Errorf("a year from which no window can be counted on: %v", err)
	}
}

// TestAMistypedCommandIsCorrectedInOneLine: a word that is not a command, and
// an unknown flag, get what was probably meant, in one line.
func TestAMistypedCommandIsCorrectedInOneLine(t *testing.T) {
	nothing := func(*cobra.Command, []string) error { return nil }
	for line, want := range map[string]string{
		"stauts":              `no command "stauts"; write ration status, or see ration --help`,
		"frobnicate":          `no command "frobnicate"; see ration --help`,
		"secret":              "",                                      // hidden commands run
		"scret":               `no command "scret"; see ration --help`, // and are not suggested
		"help stauts":         `no command "stauts"; write ration status, or see ration --help`,
		"ledger inof":         `no command "inof"; write ration ledger info, or see ration ledger --help`,
		"ledger info x":       `ration ledger info takes no argument, and got "x"; see ration ledger info --help`,
		"spend":               "write ration spend METHOD; see ration spend --help",
		"spend m --max-wiat5": `unknown flag --max-wiat5; write --max-wait`,
		"spend m --jsno":      `unknown flag --jsno; write --json`,
		"spend m --zzz":       `unknown flag --zzz; see ration spend --help`,
		"spend m -x":          "see ration spend --help",
		"spend m --units six": `--units "six": write a whole number`,
		"spend m --json=ja":   `--json "ja": write true or false`,
		"spend m":             "",
		"completion bsah":     `no command "bsah"; write ration completion bash, or see ration completion --help`,
		"completion bash x": `ration completion bash takes no argument, and got "x"; see ration completion bash ` +
			`--help`,
		"completion":      "",
		"completion bash": "",
	} {
		spend := &cobra.Command{Use: "spend METHOD", Args: cobra.ExactArgs(1), RunE: nothing}
		spend.Flags().Int64("units", 1, "")
		spend.Flags().String("max-wait", "", "")
		root := cli.Group(&cobra.Command{Use: "ration", SilenceErrors: true, SilenceUsage: true,
			Args: cobra.ArbitraryArgs},
			spend, &cobra.Command{Use: "status", RunE: nothing},
			&cobra.Command{Use: "secret", Hidden: true, RunE: nothing},
			cli.Group(&cobra.Command{Use: "ledger", Args: cobra.ArbitraryArgs},
				&cobra.Command{Use: "info", Args: cobra.NoArgs, RunE: nothing}))
		root.PersistentFlags().Bool("json", false, "")
		root.SetFlagErrorFunc(cli.FlagError)
		root.SetHelpCommand(cli.Help(root))
		root.SetOut(io.Discard)
		cli.AddCompletion(root)
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); want == "" && err != nil || want != "" && !isError(err, want) {
			t.Errorf("ration %s: %v; want %q", line, err, want)
		}
	}
}

// TestAQueryIsReadAsStrictlyAsFlags: the parameters of a document are those of
// the command, each once, and errors name no flags.
func TestAQueryIsReadAsStrictlyAsFlags(t *testing.T) {
	define := func(flags *pflag.FlagSet) {
		flags.Int("last", 20, "")
		flags.String("by", "", "")
		flags.Bool("fresh", false, "")
	}
	for query, want := range map[string]string{
		"last=3&by=region&fresh=": "",
		"lst=3":                   `unknown parameter "lst": write last`,
		"last=3&last=4":           "last is given 2 times; give it once",
		"last=many":               `last "many": write a whole number`,
		"fresh=perhaps":           `fresh "perhaps": write true or false`,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		flags, err := cli.ReadQuery(values, define)
		if want != "" {
			if _, ok := errors.AsType[*gateway.QueryError](err); !ok || err.Error() != want {
				t.Errorf("?%s: %v; want %q", query, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		last, _ := flags.GetInt("last")
		by, _ := flags.GetString("by")
		fresh, _ := flags.GetBool("fresh")
		if last != 3 || by != "region" || !fresh {
			t.Errorf("?%s is %d %q %v", query, last, by, fresh)
		}
	}
	if _, err := cli.ReadQuery(url.Values{"verbose": {"1"}}, func(*pflag.FlagSet) {}); err == nil ||
		err.Error() != `unknown parameter "verbose"; this document has none` {
		t.Errorf("a document without parameters: %v", err)
	}
}

// table has two accounts, with a budget of their own and one whose name
// both have.
func table(t *testing.T) *costs.Table {
	t.Helper()
	one := func(upstream, account, budgets string) string {
		return "version: 1\nupstream: " + upstream + "\naccount: " + account + "\nmeasures: [usd]\ncosts: {" +
			upstream + ": {usd: 0.1}}\nbudgets: [" + budgets + "]\n"
	}
	parsed, err := costs.Parse("costs.yaml",
		[]byte(one("u", "p",
			"{name: all, limit: 10, window: 1h}, {name: searches, limit: 5, window: 1h}, {name: money, limit: 5, "+
				"window: 1h, count: usd}")+"---\n"+one("w", "q",
			"{name: all, limit: 10, window: 1h}, {name: reports, limit: 5, window: 1h}")))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestABudgetOfTwoAccountsNeedsItsAccount: a budget that two accounts have
// needs its account, and "-" is the whole of one.
func TestABudgetOfTwoAccountsNeedsItsAccount(t *testing.T) {
	budgets := table(t)
	for _, c := range []struct {
		args                  []string
		flag                  string
		account, budget, fail string
	}{
		{[]string{"searches"}, "", "p", "searches", ""},
		{[]string{"all"}, "q", "q", "all", ""},
		{[]string{"-"}, "q", "q", "", ""},
		{nil, "p", "p", "", ""},
		{[]string{"all"}, "", "", "", `budget "all" is in several accounts; name one with --account`},
		{[]string{"-"}, "", "", "", "several accounts; name one with --account: p, q"},
		{nil, "", "", "", "name a budget, or with --account a whole account"},
		{[]string{"serches"}, "", "", "", `no budget "serches" in costs.yaml; write searches`},
		{[]string{"searches"}, "q", "", "", `no budget "searches" in costs.yaml; `},
		{[]string{"p"}, "", "", "",
			`no budget "p" in costs.yaml; write one of all, searches, money, reports, or --account p`},
		{nil, "pp", "", "", `no account "pp" in costs.yaml`},
	} {
		account, budget, err := cli.Scope(budgets, c.args, c.flag)
		if c.fail != "" && !isError(err, c.fail) || c.fail == "" &&
			(err != nil || account != c.account || budget != c.budget) {
			t.Errorf("%q --account %q: %q %q, %v", c.args, c.flag, account, budget, err)
		}
	}
}

// TestEachReadingIsOfItsBudget: what the console says is read for each budget
// once, within limits, and of one account at a time.
func TestEachReadingIsOfItsBudget(t *testing.T) {
	for _, c := range []struct {
		args []string
		used string
		fail string
	}{
		{[]string{"all"}, "-1", "all=-1: write a number of units from 0 to "},
		{[]string{"all", "searches"}, "1", "--used is for one budget; write BUDGET=N for each of several"},
		{[]string{"all"}, "1152921504606846976", "write a number of units from 0 to "},
		{[]string{"all"}, "1.5", "write a number of units from 0 to "},
		{[]string{"all"}, "", "write all=N for each of several budgets"},
		{[]string{"all=-1"}, "", "all=-1: write a number of units from 0 to "},
		{[]string{"all=many"}, "", "all=many: write a number of units from 0 to "},
		{[]string{"all=1", "all=2"}, "", "all is given twice"},
		{[]string{"money=0.0000001"}, "", "money=0.0000001: write a number of usd from 0 to 140737488.355327"},
	} {
		if _, got, err := cli.Readings(table(t), c.args, c.used, "p"); !isError(err, c.fail) {
			t.Errorf("%q --used %q: %v, %v; want %q", c.args, c.used, got, err, c.fail)
		}
	}
	account, readings, err := cli.Readings(table(t), []string{"searches=0", "all=5", "money=1.25"}, "", "p")
	if err != nil || account != "p" || len(readings) != 3 || readings[1].Budget != "all" || readings[1].Used != 5 ||
		readings[2].Used != 1_250_000 {
		t.Errorf("%q %+v, %v", account, readings, err)
	}
	if _, _, err := cli.Readings(table(t), []string{"searches=1", "reports=2"}, "", ""); !isError(err,
		"searches and reports are of different accounts; reconcile one account at a time") {
		t.Errorf("%v; want one account at a time", err)
	}
	if _, _, err := cli.Readings(table(t), []string{"searches=1"}, "", "q"); !isError(err, `no budget "searches"`) {
		t.Errorf("%v; want no such budget in q", err)
	}
}
