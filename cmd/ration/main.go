// Ration guards an upstream API quota: it runs fetch jobs within shared
// budgets, says what is left and who spent it, and lets any script or program
// ask before it calls.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
	_ "time/tzdata" // budgets name time zones, and a small container has none

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/setup"
)

func main() { os.Exit(newApp().main(os.Args[1:])) }

// app is all that the commands need of the world.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	plain          [2]io.Writer // stdout and stderr as they are, for programs
	getenv         func(string) string
	now            func() time.Time
	terminal       bool       // stdout and stderr are a terminal for people
	interactive    bool       // stdin is a terminal, where a person can answer
	columns        func() int // the width of the terminal that stdout is, or 0

	// The flags of every command.
	configDir string
	ledgerURL string
	stateDir  string
	endpoint  string
	json      bool
	quiet     bool
	verbose   bool

	claimTime time.Duration // of passes; 0 is jobs.DefaultClaimTime
	maxShare  float64       // of what is left; 0 is all

	fixed bool // now is not the system's clock, as with --at
	hasAt bool // now is not the present, but what --at says

	place *setup.Setup // nil until it is used

	secrets *cli.Secrets // hidden in all that is printed

	forgotten []*client.MissingError // by a ledger that is gone
}

func newApp() *app {
	isTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	return &app{stdin: os.Stdin, stdout: cli.NewWriter(os.Stdout), stderr: cli.NewWriter(os.Stderr),
		plain:   [2]io.Writer{os.Stdout, os.Stderr},
		secrets: new(cli.Secrets), getenv: os.Getenv, now: time.Now,
		terminal: isTerminal(os.Stdout) && isTerminal(os.Stderr), interactive: isTerminal(os.Stdin),
		columns: cli.Columns}
}

// main runs one command line and returns its exit code.
func (a *app) main(args []string) int {
	log.SetOutput(cli.WithoutAnswers(a.plain[1]))
	ctx, stop := interruptible(context.Background())
	defer stop()
	stdout, stderr := a.stdout.(*cli.Writer), a.stderr.(*cli.Writer)
	a.stdout, a.stderr = a.secrets.Writer(stdout), a.secrets.Writer(stderr)
	defer stderr.Flush()
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cli.AddCompletion(root)
	err := root.ExecuteContext(ctx)
	if failed := stdout.Flush(); err == nil {
		err = failed
	}
	if i := slices.Index(args, "--json"); as[*cli.Error](err) && i >= 0 && !slices.Contains(args[:i], "--") {
		a.json = true // flags after the mistake were not read
	}
	return a.exit(err)
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by " + e.name() }

// name returns the signal's name, one of the two that interruptible awaits.
func (e *signalError) name() string {
	if e.signal == syscall.SIGTERM {
		return "SIGTERM"
	}
	return "SIGINT"
}

// interruptible returns a context that the first SIGINT or SIGTERM ends; the
// second one ends the process at once.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&signalError{s.(syscall.Signal)}) // as both are
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

func (a *app) root() *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "ration",
		Short: "Guard an upstream API quota that many processes share",
		Long: `Ration makes every process that shares an upstream quota charge one ledger
before each call, in the upstream's own units. A call that the budgets cannot
pay for is refused before it is sent. Ration waits out a short wait; a long one
ends the run cleanly, and the next run resumes.`,
		Example:       "  ration demo\n  ration run && ration status",
		SilenceErrors: true, SilenceUsage: true,
		Args:              cli.NoWords,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cli.CheckFlags(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.version()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version, as the version command does")
	flags := root.PersistentFlags()
	flags.StringVar(&a.configDir, "config", "",
		"`folder` of costs.yaml and regions.yaml (else RATION_CONFIG, ., $XDG_CONFIG_HOME/ration)")
	flags.StringVar(&a.ledgerURL, "ledger", "",
		"`url` of the ledger: sqlite:FILE, redis://HOST:PORT/DB or postgres://USER@HOST/DATABASE (else "+
			"RATION_LEDGER, ledger: in costs.yaml, ration.db in the state folder)")
	flags.StringVar(&a.stateDir, "state", "",
		"`folder` of ration's own files (else RATION_STATE, $STATE_DIRECTORY, $XDG_STATE_HOME/ration, "+
			"~/.local/state/ration)")
	flags.StringVar(&a.endpoint, "endpoint", "",
		"`url` of a test server that receives the calls instead of the upstream (else RATION_ENDPOINT)")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print nothing when a budget stops a run")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print more, on a terminal or not")
	root.SetFlagErrorFunc(cli.FlagError)
	root.SetUsageTemplate(cli.UsageTemplate(root.UsageTemplate(), a.width()))
	root.AddCommand(a.demoCommand(), a.runCommand(), a.serveCommand(), a.proxyCommand(), a.execCommand(),
		a.statusCommand(), a.planCommand(), a.replayCommand(), a.spendCommand(), a.reportCommand(), a.limitCommand(),
		a.searchCommand(), a.logCommand(), a.costsCommand(),
		a.doctorCommand(), a.versionCommand(), a.cooldownCommand(), a.ledgerCommand(), a.whyCommand(), a.alertCommand(),
		a.caCommand(), a.metricsCommand(),
		a.fakeCommand(), a.initCommand(), a.manCommand(), a.explainCommand())
	root.SetHelpCommand(cli.Help(root))
	for _, command := range root.Commands() {
		command.Args = cli.Args(command.Args)
	}
	return root
}

// setNow sets the present time of the command to that of --at, if it has one.
func (a *app) setNow(at string) error {
	if at == "" {
		return nil
	}
	now, err := cli.ParseTime("--at", at, cli.LastNowYear)
	if err == nil {
		a.now = func() time.Time { return now }
		a.fixed, a.hasAt = true, true
	}
	return err
}

func (a *app) explainCommand() *cobra.Command {
	return cli.ExplainCommand(cli.ExplainSetup{
		Prices: func() cli.Pricer { return a.setup() },
		JSON:   &a.json, WriteJSON: a.writeJSON, Paragraph: a.paragraph,
		Stdin: a.stdin, Now: a.now,
	}, exitCodes(exitConfig))
}

func (a *app) limitCommand() *cobra.Command {
	with := func(use func(*client.Client) error) error {
		return a.withAccounts("", true, func(c *client.Client, _ []string) error { return use(c) })
	}
	return cli.LimitCommand(cli.LimitSetup{With: with, Print: a.printAnswer},
		exitCodes(exitStopped, exitLedger, exitConfig))
}
