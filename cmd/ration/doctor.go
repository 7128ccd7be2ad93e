package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
	"github.com/ration-dev/ration/quota/redisledger"
)

func (a *app) doctorCommand() *cobra.Command {
	var at, keyFile string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, the ledger, clocks and Redis settings",
		Long: `Doctor checks what the other commands rely on and says how to fix each problem.
It does not call the upstream, spends nothing and leaves nothing behind. Pass
the same --key-file as to run. With --at it checks as of another time, such as
a date next year.

` + exitCodes(exitLedger, exitConfig) + `
A warning does not change the exit code.`,
		Example: "  ration doctor\n  ration doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "" {
				instant, err := parseTime("--at", at, lastNowYear)
				if err != nil {
					return err
				}
				a.now, a.fixed = func() time.Time { return instant }, true
			}
			return a.doctor(cmd.Context(), keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key-file", "", "`file` that holds the API key")
	cmd.Flags().StringVar(&at, "at", "", "check as of this `time` (RFC 3339)")
	return cmd
}

// The grades of what doctor finds; redisledger.Severity has the same words.
const (
	fine    = "ok"
	remark  = "note"
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
	c.found(problem, "", "%s", message(err))
	if c.err == nil {
		c.err = err
	}
}

func (a *app) doctor(ctx context.Context, keyFile string) error {
	c := &checkup{}
	a.examine(ctx, c, keyFile)
	if a.json {
		if err := a.writeJSON(map[string]any{"findings": c.findings}); err != nil {
			return err
		}
	} else {
		for _, f := range c.findings {
			a.paragraph(fmt.Sprintf("%-8s ", f.Grade), "%s", f.What)
			if f.Do != nil {
				a.paragraph(fmt.Sprintf("%-8s -> ", ""), "%s", *f.Do)
			}
		}
	}
	if c.err != nil {
		return &reported{c.err}
	}
	return nil
}

// examine looks at one thing after the other, as far as each leads to the next.
func (a *app) examine(ctx context.Context, c *checkup, keyFile string) {
	table, err := a.prices()
	if err != nil {
		c.failed(err)
		return
	}
	priced := 0
	for _, u := range table.Upstreams() {
		priced += len(u.Costs)
	}
	c.found(fine, "", "costs.yaml: %s: %s, %s priced", a.wholePath("costs.yaml"), human.Count(len(table.Budgets()), "budget"), human.Count(priced, "method"))
	a.examinePresets(c, table)
	fetches := a.examineRegions(c, table)
	if endpoint := a.env(a.endpoint, "RATION_ENDPOINT"); endpoint != "" && fetches {
		c.found(remark, "", "run and serve send the upstream's calls to %s (--endpoint or RATION_ENDPOINT)", human.Name(endpointHost(endpoint)))
	}
	a.examineKey(c, keyFile, fetches)
	a.examineState(c)
	opened, err := a.openClient(table, false)
	if errors.Is(err, errNoLedger) {
		name := a.ledgerName()
		if err := makeable(strings.TrimPrefix(name, "sqlite:")); err != nil {
			c.failed(&configError{fmt.Errorf("ledger %s: none there yet, and it cannot be made: %w; have it made for this user, or name another ledger with --ledger", name, err)})
			return
		}
		c.found(fine, "", "ledger %s: none there yet, the first call makes it", name)
		return
	}
	if err != nil {
		c.failed(err)
		return
	}
	defer opened.Close()
	a.examineLedger(ctx, c, opened)
	if units, err := a.unrecorded(); err != nil {
		c.failed(err)
	} else if units > 0 {
		c.found(warning, "leave that much room, or enter it: ration ledger reconcile", "%s %s sent within the allowance in the last 24 hours while the ledger was down; no budget shows them", human.Count(units, "unit"), human.Was(units))
	}
}

// endpointHost returns what may be shown of an endpoint: no credentials.
func endpointHost(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "another server"
	}
	return u.Scheme + "://" + u.Host
}

// wholePath returns which file a configuration file that was read is.
func (a *app) wholePath(name string) string {
	path, err := a.configFile(name)
	if err != nil {
		return name
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return human.Name(path)
}

// examineRegions reports whether there is a regions.yaml: who only spends needs none.
func (a *app) examineRegions(c *checkup, table *costs.Table) bool {
	var regions []string
	config, err := a.regions(table)
	if missing, ok := errors.AsType[*missingFile](err); ok {
		c.found(remark, "", "no %s in %s: run, serve and plan need one", missing.name, missing.where())
		for _, b := range table.Budgets() { // nothing to hold these against
			regions = slices.AppendSeq(append(regions, b.Regions...), maps.Keys(b.Floor))
		}
		examineCoverage(c, table.Budgets(), regions)
		return false
	}
	if err != nil {
		c.failed(err)
		return true
	}
	for _, region := range config.Regions {
		regions = append(regions, region.Name)
	}
	c.found(fine, "", "regions.yaml: %s: %s", a.wholePath("regions.yaml"), human.Count(len(config.Regions), "region"))
	examineCoverage(c, table.Budgets(), regions)
	return true
}

// examineKey looks at the key of who fetches, and at a key file that was named.
func (a *app) examineKey(c *checkup, file string, fetches bool) {
	if file == "" && !fetches {
		return
	}
	key, err := a.key(file)
	switch {
	case err != nil:
		c.failed(err)
	case key == "" && a.env(a.endpoint, "RATION_ENDPOINT") != "": // which run gives no key
	case key == "":
		c.found(warning, "put it into YOUTUBE_API_KEY, or give --key-file to run", "no API key in the environment")
	case file != "":
		c.found(fine, "", "key file %s", human.Name(file))
	}
}

// makeable returns why a path that is not there yet cannot be made: the
// nearest folder above it that exists takes no file.
func makeable(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for folder := filepath.Dir(path); ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return privatefile.Writable(folder)
		}
	}
}

func (a *app) examineState(c *checkup) {
	dir, err := a.state()
	if err != nil {
		c.failed(err)
		return
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := makeable(dir); err != nil {
			c.failed(&configError{fmt.Errorf("state folder %s: none there yet, and it cannot be made: %w; have it made for this user, or name another with --state", dir, err)})
			return
		}
		c.found(fine, "", "state folder %s: none there yet, the first run makes it", dir)
	case err != nil:
		c.failed(&configError{err})
	case !info.IsDir():
		c.failed(&configError{fmt.Errorf("state folder %s is a file; name a folder with --state", dir)})
	default:
		examineFolder(c, dir, info.Mode().Perm())
	}
}

// examineFolder looks at a state folder that is there.
func examineFolder(c *checkup, dir string, mode fs.FileMode) {
	err := privatefile.Writable(dir)
	switch {
	case err != nil:
		c.failed(&configError{fmt.Errorf("state folder: %w; make it writable, or name another with --state", err)})
	case mode&0o077 != 0:
		c.found(warning, fmt.Sprintf("chmod 700 %s", dir), "state folder %s: others may look into it (mode %04o)", dir, mode)
	default:
		c.found(fine, "", "state folder %s", dir)
	}
}

func (a *app) examineLedger(ctx context.Context, c *checkup, opened *client.Client) {
	accounts, name := opened.Table().Accounts(), opened.LedgerName()
	at, _, err := opened.Guard().Now(ctx, accounts[0])
	if err != nil {
		c.failed(fmt.Errorf("%w (ledger %s)", err, name))
		return
	}
	c.found(fine, "", "ledger %s answers", name)
	if skew := a.now().Sub(at).Abs(); skew > quota.MaxClockSkew {
		c.found(warning, "set both clocks by NTP", "the ledger's clock and this host's are %s apart", skew.Round(time.Second))
	}
	for _, account := range accounts {
		_, ahead, err := opened.Guard().Now(ctx, account)
		if err != nil {
			c.failed(fmt.Errorf("%w (ledger %s)", err, name))
		} else if ahead > 0 {
			c.found(warning, "correct the clock, then run ration ledger restamp", "the newest entry of %s is stamped %s ahead of the ledger's clock, so its budgets free late",
				human.Name(account), human.Duration(ahead))
		}
	}
	found, err := opened.Inspect(ctx)
	if err != nil {
		c.failed(fmt.Errorf("%w (ledger %s)", err, name))
	}
	for _, f := range found {
		grade := f.Severity.String()
		if f.Severity == redisledger.Problem && c.err == nil {
			c.err = &configError{errors.New(f.What)}
		}
		c.found(grade, f.Do, "%s", f.What)
	}
}
