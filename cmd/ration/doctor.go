package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/doctor"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/jobs/status"
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
			if err := a.setNow(at); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key-file", "", "`file` that holds the API key")
	cmd.Flags().StringVar(&at, "at", "", "check as of this `time` (RFC 3339)")
	return cmd
}

func (a *app) doctor(ctx context.Context, keyFile string) error {
	c := &doctor.Checkup{Message: message, Now: a.now}
	a.examine(ctx, c, keyFile)
	if a.json {
		if err := a.writeJSON(map[string]any{"findings": c.Findings}); err != nil {
			return err
		}
	} else {
		for _, f := range c.Findings {
			a.paragraph(fmt.Sprintf("%-8s ", f.Grade), "%s", f.What)
			if f.Do != nil {
				a.paragraph(fmt.Sprintf("%-8s -> ", ""), "%s", *f.Do)
			}
		}
	}
	if c.Err != nil {
		return &reported{c.Err}
	}
	return nil
}

// examine looks at one thing after the other, as far as each leads to the next.
func (a *app) examine(ctx context.Context, c *doctor.Checkup, keyFile string) {
	table, err := a.setup().Prices()
	if err != nil {
		c.Fail(err)
		return
	}
	priced := 0
	for _, u := range table.Upstreams() {
		priced += len(u.Costs)
	}
	c.Add(doctor.OK, "", "costs.yaml: %s: %s, %s priced", a.wholePath("costs.yaml"), human.Count(len(table.Budgets()), "budget"), human.Count(priced, "method"))
	c.CheckPresets(table)
	c.CheckAllowances(table)
	a.examineCredentials(c, table)
	fetches := a.examineRegions(c, table)
	if endpoint := a.setup().UpstreamEndpoint(); endpoint != "" && fetches {
		c.Add(doctor.Note, "", "run and serve send the upstream's calls to %s (--endpoint or RATION_ENDPOINT)", human.Name(endpointHost(endpoint)))
	}
	a.examineKey(c, keyFile, fetches)
	if dir, err := a.setup().StateFolder(); err != nil {
		c.Fail(err)
	} else {
		c.CheckState(dir)
		a.examineFailures(ctx, c)
	}
	c.CheckLedgerFiles(client.LedgerName(table, a.setup().Options()))
	opened, err := a.setup().Open(table, false)
	if errors.Is(err, setup.ErrNoLedger) {
		c.CheckMissingLedger(a.setup().LedgerName())
		return
	}
	if err != nil {
		c.Fail(err)
		return
	}
	defer opened.Close()
	c.CheckLedger(ctx, opened)
	repairs, err := a.setup().Repairs()
	c.Fail(err)
	for i := range repairs {
		if repairs[i].Lost {
			c.Add(doctor.Warning, "find out why the ledger lost entries: see docs/faults.md", "%s", status.DescribeRepair(&repairs[i], a.now()))
		}
	}
	if units, err := a.setup().Unrecorded(); err != nil {
		c.Fail(err)
	} else if units > 0 {
		c.Add(doctor.Warning, "nothing, the next call records them once the ledger is up", "%s %s sent within the allowance while the ledger was down, not yet in the ledger", human.Count(units, "unit"), human.Was(units))
	}
}

// examineCredentials looks at the files that the gateway reads.
func (a *app) examineCredentials(c *doctor.Checkup, table *costs.Table) {
	c.Fail(a.setup().CheckStrayCredentials(table))
	c.CheckCredentials(table)
}

// examineFailures lists the steps that wait because they keep failing.
func (a *app) examineFailures(ctx context.Context, c *doctor.Checkup) {
	waiting, err := status.WaitingSteps(ctx, a.setup())
	if err != nil {
		c.Fail(err)
	}
	for _, step := range waiting {
		c.Add(doctor.Warning, "fix the cause, then run again with --again", "%s", step.String())
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
	path, err := a.setup().File(name)
	if err != nil {
		return name
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return human.Name(path)
}

// examineRegions reports whether regions.yaml has YouTube steps, or cannot be read.
// Without the file, ration only spends.
func (a *app) examineRegions(c *doctor.Checkup, table *costs.Table) bool {
	var regions []string
	config, err := a.setup().Regions(table, jobs.Lane)
	if missing, ok := errors.AsType[*client.MissingFileError](err); ok {
		c.Add(doctor.Note, "", "no %s in %s: run, serve and plan need one", missing.Name, missing.Where())
		c.CheckCoverage(table.Budgets(), table.Regions()) // there is nothing to compare the regions with
		return false
	}
	if err != nil {
		c.Fail(err)
		return true
	}
	for _, region := range config.Regions {
		regions = append(regions, region.Name)
	}
	c.Add(doctor.OK, "", "regions.yaml: %s: %s", a.wholePath("regions.yaml"), human.Count(len(config.Regions), "region"))
	c.CheckCoverage(table.Budgets(), regions)
	examinePrograms(c, config.Regions)
	return jobs.FetchesYouTube(config.Regions)
}

// examinePrograms looks for the programs of the regions.
func examinePrograms(c *doctor.Checkup, regions []jobs.Region) {
	programs, uncounted := map[string]bool{}, map[string]bool{}
	for _, region := range regions {
		for _, step := range region.Steps {
			if step.Program == nil {
				continue
			}
			programs[step.Name()] = true
			if len(step.Calls()) == 0 && !uncounted[step.Name()] {
				uncounted[step.Name()] = true
				c.Add(doctor.Note, "", "%s: %s names no calls: it is started whatever the budgets hold, and ration plan counts nothing for it", step.Program.Place, human.Name(step.Name()))
			}
		}
	}
	if err := jobs.CheckPrograms(regions); err != nil {
		c.Fail(err)
	} else if len(programs) > 0 {
		c.Add(doctor.OK, "", "%s found", human.Count(len(programs), "program"))
	}
}

// examineKey looks at the key of who fetches, and at a key file that was named.
func (a *app) examineKey(c *doctor.Checkup, file string, fetches bool) {
	if file == "" && !fetches {
		return
	}
	key, err := a.setup().Key(file)
	switch {
	case err != nil:
		c.Fail(err)
	case key == "" && a.setup().UpstreamEndpoint() != "": // which run gives no key
	case key == "":
		c.Add(doctor.Warning, "put it into YOUTUBE_API_KEY, or give --key-file to run", "no API key in the environment")
	case file != "":
		c.Add(doctor.OK, "", "key file %s", human.Name(file))
	}
}
