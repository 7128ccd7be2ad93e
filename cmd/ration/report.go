package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// reportFlags are the flags of report.
type reportFlags struct {
	grant, upstream string
	status          int
	headers         []string
	body            string
	units           int64
	amounts         map[string]string
	maxWait         time.Duration
	caller          quota.Caller
}

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [METHOD]",
		Short: "Apply what the upstream answered: settle, cool down, note the rest",
		Long: `Report applies an upstream's answer to a call that was charged by spend, as the
guard does for the calls that it sends itself: if the upstream says stop, all
processes stop for as long as it says; what it says is left is recorded; and
with --grant the charge is settled to the real cost. The grant is that of
spend --json, and names the method. Without a grant, give the method.

If the answer sets a cooldown that lasts longer than --max-wait, report exits 75
and says when to try again, so that a script can end with "|| exit".

--header @FILE reads the headers of a file that curl --dump-header has written.

` + exitCodes(exitStopped, exitLedger, exitConfig),
		Example: `  ration report search.list --status 403 --body answer.json || exit
  ration report --grant "$GRANT" --status 200 --header @headers.txt
  ration report --grant "$GRANT" --status 200 --units 40`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("units") {
				f.units = -1
			} else if f.units < 0 || quota.Units(f.units) > quota.MaxUnits {
				return &cli.Error{Err: fmt.Errorf("--units %d: give 0 to %d", f.units, quota.MaxUnits)}
			}
			method := ""
			if len(args) > 0 {
				method = args[0]
			}
			if err := f.check(method, cmd.Flags().Changed); err != nil {
				return &cli.Error{Err: err}
			}
			return a.reportAnswer(cmd.Context(), method, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.grant, "grant", "", "the `grant` of the call, from spend --json")
	flags.IntVar(&f.status, "status", 0, "the answer's HTTP status")
	flags.StringArrayVar(&f.headers, "header", nil,
		"a `header` of the answer, 'Name: value', or @FILE; may be repeated")
	flags.StringVar(&f.body, "body", "", "`file` that holds the answer's body; - is stdin")
	flags.Int64Var(&f.units, "units", 0, "what the call really cost, if the answer does not say")
	cli.DefineAmounts(flags, &f.amounts, "what it really cost in a `measure`")
	cli.SecondsVar(flags, &f.maxWait, "max-wait", "exit 0 in spite of a cooldown that is no longer than this")
	a.defineCaller(flags, &f.caller, quota.LaneManual)
	flags.StringVar(&f.upstream, "upstream", "", "the upstream, if several have the method")
	return cmd
}

// check checks the flags; isSet says which were given.
func (f *reportFlags) check(method string, isSet func(name string) bool) error {
	switch {
	case !isSet("status"):
		return errors.New("--status: give the answer's HTTP status, such as 200")
	case f.status < 100 || f.status > 599:
		return fmt.Errorf("--status %d: give the answer's HTTP status, 100 to 599", f.status)
	case method == "" && f.grant == "":
		return errors.New("name the method, or give the call's --grant")
	case f.units >= 0 && f.grant == "":
		return errors.New("--units: pass the --grant too; without it the charge is not known")
	case len(f.amounts) > 0 && f.grant == "":
		return errors.New("--amount: pass the --grant too; without it the charge is not known")
	}
	for _, name := range []string{"upstream", "region", "job", "lane"} {
		if f.grant != "" && isSet(name) {
			return fmt.Errorf("--%s: leave it out; the grant says it", name)
		}
	}
	return nil
}

func (a *app) reportAnswer(ctx context.Context, method string, f *reportFlags) error {
	answer, err := a.answer(f)
	if err != nil {
		return err
	}
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	var call quota.Call
	if f.grant == "" {
		if f.caller, err = a.callerOf(table, f.caller); err != nil {
			return err
		}
		if call, err = cli.Call(table, f.upstream, method); err != nil {
			return err
		}
		call.Caller = f.caller
	}
	var result *gateway.ReportResult
	err = a.withClient(table, true, func(c *client.Client) error {
		var grant *quota.Grant
		if f.grant != "" {
			var err error
			if grant, err = gateway.Redeem(c, f.grant, method); err != nil {
				return &cli.Error{Err: fmt.Errorf("--grant: %w", err)}
			}
			call = grant.Call()
		}
		var err error
		result, err = answer.Apply(ctx, c, call, grant)
		return err
	})
	if err != nil {
		return err
	}
	return a.printResult(call, result, f.maxWait)
}

// answer returns the answer that flags describe.
func (a *app) answer(f *reportFlags) (*gateway.Answer, error) {
	answer := &gateway.Answer{Status: f.status, Headers: map[string]gateway.HeaderValues{},
		Amounts: cli.AmountsOf(f.amounts)}
	if f.units >= 0 {
		answer.Units = new(quota.Units(f.units))
	}
	for _, text := range f.headers {
		add := answer.AddHeader
		if name, isFile := strings.CutPrefix(text, "@"); isFile {
			dump, err := a.readAnswer(name)
			if err != nil {
				return nil, &cli.Error{Err: fmt.Errorf("--header: %w; name a file that curl --dump-header has written",
					err)}
			}
			text, add = dump, answer.AddDump
		}
		if err := add(text); err != nil {
			return nil, &cli.Error{Err: fmt.Errorf("--header %w", err)}
		}
	}
	if f.body != "" {
		body, err := a.readAnswer(f.body)
		if err != nil {
			return nil, &cli.Error{Err: fmt.Errorf("--body: %w; name the file that holds the answer's body", err)}
		}
		answer.Body = body
	}
	return answer, nil
}

// maxAnswer is how much of a body or of headers is read.
const maxAnswer = 1 << 20

// readAnswer reads a file, or stdin for -.
func (a *app) readAnswer(name string) (string, error) {
	in := a.stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxAnswer))
	return string(text), err
}

// printResult prints what an answer did, and returns an error if calls
// must stop.
func (a *app) printResult(call quota.Call, result *gateway.ReportResult, maxWait time.Duration) error {
	var stopped error
	if c := result.Stop(maxWait); c != nil {
		stopped = &jobs.UpstreamError{RetryAt: cli.TimeOrZero(c.Until),
			Err: fmt.Errorf("the upstream says to stop: %v", c)}
	}
	switch {
	case a.json:
		if err := a.writeJSON(result); err != nil || stopped == nil {
			return err
		}
		return &reported{stopped}
	case stopped == nil && (a.terminal || a.verbose):
		fmt.Fprintln(a.stderr, "applied:", result.Describe(call.Method))
	}
	return stopped
}
