package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

func (a *app) doctorCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check configuration, ledger, clocks and Redis settings",
		Long: `Doctor checks what the other commands rely on and says what to do about each
thing that is wrong. It makes no call to the upstream, spends nothing and
creates nothing. --at judges as of another instant, such as next year's.

` + exitHelp + `
A warning does not change the exit code.`,
		Example: "  ration doctor\n  ration doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "" {
				instant, err := time.Parse(time.RFC3339, at)
				if err != nil {
					return &usageError{fmt.Errorf("--at %q: write an instant such as 2026-11-20T09:00:00Z", at)}
				}
				a.now, a.fixed = func() time.Time { return instant }, true
			}
			return a.doctor(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "judge as of this `instant` (RFC 3339)")
	return cmd
}

// The grades of what doctor finds; redisledger.Severity has the same words, and "note".
const (
	fine    = "ok"
	warning = "warning"
	problem = "problem"
)

// finding is one thing that doctor looked at.
type finding struct {
	Grade string  `json:"grade"`
	What  string  `json:"what"`
	Do    *string `json:"do"` // what to do about it
}

// checkup gathers findings, and the error that decides the exit code.
type checkup struct {
	findings []finding
	err      error
}

func (c *checkup) found(grade, do, format string, args ...any) {
	f := finding{Grade: grade, What: fmt.Sprintf(format, args...)}
	if do != "" {
		f.Do = &do
	}
	c.findings = append(c.findings, f)
}

// failed notes an error as a problem; the first decides the exit code.
func (c *checkup) failed(err error) {
	if err == nil {
		return
	}
	c.found(problem, "", "%s", err)
	if c.err == nil {
		c.err = err
	}
}

func (a *app) doctor(ctx context.Context) error {
	c := &checkup{}
	a.examine(ctx, c)
	if a.json {
		if err := json.NewEncoder(a.stdout).Encode(map[string]any{"findings": c.findings}); err != nil {
			return err
		}
	} else {
		for _, f := range c.findings {
			fmt.Fprintf(a.stdout, "%-8s %s\n", f.Grade, f.What)
			if f.Do != nil {
				fmt.Fprintf(a.stdout, "%-8s -> %s\n", "", *f.Do)
			}
		}
	}
	if c.err != nil {
		return &reported{c.err}
	}
	return nil
}

// examine looks at one thing after the other, as far as each leads to the next.
func (a *app) examine(ctx context.Context, c *checkup) {
	table, err := a.prices()
	if err != nil {
		c.failed(err)
		return
	}
	priced := 0
	for _, u := range table.Upstreams() {
		priced += len(u.Costs)
	}
	c.found(fine, "", "costs.yaml: %d budgets, %d methods priced", len(table.Budgets()), priced)
	a.examinePresets(c, table)
	if config, err := a.regions(table); err != nil {
		c.failed(err)
	} else {
		c.found(fine, "", "regions.yaml: %d regions", len(config.Regions))
		var regions []string
		for _, region := range config.Regions {
			regions = append(regions, region.Name)
		}
		examineCoverage(c, table.Budgets(), regions)
	}
	if key, err := a.key(""); err == nil && key == "" {
		c.found(warning, "put it into YOUTUBE_API_KEY, or give --key-file to run", "no API key in the environment")
	}
	a.examineState(c)
	l, err := a.openLedger(table, false)
	if errors.Is(err, errNoLedger) {
		c.found(fine, "", "ledger %s: none there yet, the first call makes it", l.name)
		return
	}
	if err != nil {
		c.failed(err)
		return
	}
	defer l.Close()
	a.examineLedger(ctx, c, l, table.Upstreams()[0].Account)
}

func (a *app) examineState(c *checkup) {
	dir, err := a.state()
	if err != nil {
		c.failed(err)
		return
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		c.found(fine, "", "state folder %s: none there yet, the first run makes it", dir)
	case err != nil:
		c.failed(&configError{err})
	case !info.IsDir():
		c.failed(&configError{fmt.Errorf("state folder %s is a file; name a folder with --state", dir)})
	case info.Mode().Perm()&0o077 != 0:
		c.found(warning, fmt.Sprintf("chmod 700 %s", dir), "state folder %s: others may look into it (mode %04o)", dir, info.Mode().Perm())
	default:
		c.found(fine, "", "state folder %s", dir)
	}
}

// maxSkew is how far this host's clock and the ledger's may be apart before
// doctor says so.
const maxSkew = time.Minute

func (a *app) examineLedger(ctx context.Context, c *checkup, l *ledger, account string) {
	at, err := l.clock(ctx, account)
	if err != nil {
		c.failed(fmt.Errorf("%w (ledger %s)", err, l.name))
		return
	}
	c.found(fine, "", "ledger %s answers", l.name)
	if skew := a.now().Sub(at).Abs(); skew > maxSkew {
		c.found(warning, "set both clocks by NTP", "the ledger's clock and this host's are %s apart", skew.Round(time.Second))
	}
	redis, ok := l.Ledger.(*redisledger.Ledger)
	if !ok {
		return
	}
	found, err := redis.Inspect(ctx)
	if err != nil {
		c.failed(fmt.Errorf("%w (ledger %s)", err, l.name))
	}
	for _, f := range found {
		grade := f.Severity.String()
		if f.Severity == redisledger.Problem && c.err == nil {
			c.err = &configError{errors.New(f.What)}
		}
		c.found(grade, f.Do, "%s", f.What)
	}
}

// clock asks the ledger for its time.
func (l *ledger) clock(ctx context.Context, account string) (time.Time, error) {
	anything := &quota.Charge{Budget: "doctor", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 1, Window: quota.Sliding(time.Minute)}
	standings, err := l.Standings(ctx, account, "", []*quota.Charge{anything})
	if err != nil {
		return time.Time{}, err
	}
	return standings[0].At, nil
}
