package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// Examine looks at one thing after the other, as far as each leads to the next.
// keyFile holds the API key; "" is that of the environment.
func (c *Checkup) Examine(ctx context.Context, s *setup.Setup, keyFile string) {
	c.CheckEnvironment(os.Environ())
	table, err := s.Prices()
	if err != nil {
		c.Fail(err)
		return
	}
	priced := 0
	for _, u := range table.Upstreams() {
		priced += len(u.Costs)
	}
	c.Add(OK, "", "costs.yaml: %s: %s, %s priced", wholePath(s, "costs.yaml"),
		human.Count(len(table.Budgets()), "budget"), human.Count(priced, "method"))
	c.CheckPresets(table)
	c.CheckHosts(table)
	c.CheckRoutes(table)
	c.CheckLimits(table)
	c.CheckRepeats(table)
	c.CheckAllowances(table)
	c.Fail(s.CheckStrayCredentials(table))
	c.CheckCredentials(table)
	c.CheckAlerts(table)
	fetches := c.examineRegions(s, table)
	if endpoint := s.UpstreamEndpoint(); endpoint != "" && fetches {
		c.Add(Note, "", "run and serve send the upstream's calls to %s (--endpoint or RATION_ENDPOINT)",
			human.Name(endpointHost(endpoint)))
	}
	c.examineKey(s, keyFile, fetches)
	if dir, err := s.StateFolder(); err != nil {
		c.Fail(err)
	} else {
		c.CheckState(dir)
		c.examineFailures(ctx, s)
	}
	c.CheckReplica(client.ReplicaFolder(s.Options()))
	name := client.LedgerName(table, s.Options())
	c.CheckLedgerFiles(name)
	opened, err := s.Open(table, false)
	if errors.Is(err, setup.ErrNoLedger) {
		c.CheckMissingLedger(s.LedgerName(), c.examineLoss(ctx, s))
		return
	}
	if err != nil {
		if c.checked[strings.TrimPrefix(name, "sqlite:")] == nil { // otherwise CheckLedgerFiles has said it
			c.Fail(err)
		}
		return
	}
	defer opened.Close()
	c.CheckLedger(ctx, opened)
	if err := opened.CheckReplica(ctx); err != nil {
		c.Add(Note, "", "%v", err)
	}
	c.examineLoss(ctx, s)
	c.examineRestorations(s)
}

// examineRestorations says what this host has restored of the ledger, and what
// it has not yet.
func (c *Checkup) examineRestorations(s *setup.Setup) {
	for _, restored := range s.Known().Restorations() {
		if restored.Lost {
			c.Add(Warning, "find out why the ledger lost records: see docs/faults.md", "%s",
				DescribeRepair(&restored, c.Now()))
		}
	}
	for _, u := range s.Known().Unexplained() {
		c.Add(Warning, u.Explain(), "%s", u.String())
	}
	if units, err := s.Known().Unrecorded(); err != nil {
		c.failReplica(err)
	} else if units > 0 {
		do := "nothing, the next call records this once the ledger is up"
		if _, ok := errors.AsType[*engine.LookAlikeError](c.Err); ok {
			do = "correct the account's name, and charge them to it: ration spend METHOD --units N; this ledger " +
				"cannot record them under the other name"
		}
		c.Add(Warning, do, "%s", Unrecorded(units))
	}
}

// failReplica adds that the replica cannot be read, unless CheckReplica has
// named the file.
func (c *Checkup) failReplica(err error) {
	failed, ok := errors.AsType[*fs.PathError](err)
	switch {
	case !ok:
		c.Fail(err)
	case c.checked[failed.Path] == nil:
		c.Fail(fmt.Errorf("replica: %w; make it readable for this user, or name another with RATION_JOURNAL", err))
	}
}

// examineLoss says what the ledger has forgotten of this host's grants, and
// that it is empty where another one was used before. It reports whether
// anything is forgotten. A ledger that cannot be asked is a finding of
// CheckLedger.
func (c *Checkup) examineLoss(ctx context.Context, s *setup.Setup) (isLost bool) {
	if empty, ok := errors.AsType[*client.EmptyLedgerError](s.Known().CheckEmpty(ctx)); ok {
		c.isReplaced = true
		c.Add(Warning, "nothing, if it is meant; otherwise name the old one again",
			"the ledger %s is empty, and the one that this costs.yaml used before is %s: what was spent there does "+
				"not count any more", empty.Ledger, empty.Before)
	}
	missing, err := s.Known().Missing()
	if isKnown := errors.Is(err, quota.ErrLedgerConfig) && errors.Is(c.Err, quota.ErrLedgerConfig); !isKnown &&
		!client.IsDown(err) {
		c.Fail(err)
	}
	for _, loss := range missing {
		c.Add(Warning, "find out why the ledger lost records: see docs/faults.md", "%v", loss)
	}
	return len(missing) > 0
}

// examineFailures lists the steps that wait because they keep failing.
func (c *Checkup) examineFailures(ctx context.Context, s *setup.Setup) {
	waiting, err := WaitingSteps(ctx, s)
	if err != nil {
		c.Fail(err)
	}
	for _, step := range waiting {
		c.Add(Warning, "fix the cause, then run again with --again", "%s", step.String())
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
func wholePath(s *setup.Setup, name string) string {
	path, err := s.File(name)
	if err != nil {
		return name
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return human.Name(path)
}

// examineRegions reports whether regions.yaml has YouTube steps, or may have
// them: it cannot be read, and costs.yaml has an api. Without the file, ration
// only spends.
func (c *Checkup) examineRegions(s *setup.Setup, table *costs.Table) bool {
	var regions []string
	if note := table.MarginNote(); note != "" {
		c.Add(Note, "", "%s", note)
	}
	config, err := s.Regions(table, jobs.Lane)
	if missing, ok := errors.AsType[*client.MissingFileError](err); ok {
		c.Add(OK, "", "no %s in %s: run, serve and plan need one", missing.Name, missing.Where())
		c.CheckCoverage(table.Budgets(), table.Regions()) // there is nothing to compare the regions with
		return false
	}
	if err != nil {
		c.Fail(err)
		return slices.ContainsFunc(table.Upstreams(), func(u costs.Upstream) bool { return u.API != "" })
	}
	for _, region := range config.Regions {
		regions = append(regions, region.Name)
	}
	c.Add(OK, "", "regions.yaml: %s: %s", wholePath(s, "regions.yaml"), human.Count(len(config.Regions), "region"))
	c.CheckCoverage(table.Budgets(), regions)
	c.examinePrograms(config.Regions)
	return jobs.FetchesYouTube(config.Regions)
}

// examinePrograms looks for the programs of the regions.
func (c *Checkup) examinePrograms(regions []jobs.Region) {
	programs, uncounted := map[string]bool{}, map[string]bool{}
	for _, region := range regions {
		for _, step := range region.Steps {
			if step.Program == nil {
				continue
			}
			programs[step.Name()] = true
			if len(step.Calls()) == 0 && !uncounted[step.Name()] {
				uncounted[step.Name()] = true
				c.Add(Note, "",
					"%s: %s names no calls: it is started whatever the budgets hold, and ration plan counts nothing "+
						"for it", step.Program.Place, human.Name(step.Name()))
			}
		}
	}
	if err := jobs.CheckPrograms(regions); err != nil {
		c.Fail(err)
	} else if len(programs) > 0 {
		c.Add(OK, "", "%s found", human.Count(len(programs), "program"))
	}
}

// examineKey looks at the key of who fetches, and at a key file that was named.
func (c *Checkup) examineKey(s *setup.Setup, file string, fetches bool) {
	if file == "" && !fetches {
		return
	}
	key, err := s.Key(file)
	switch {
	case err != nil:
		c.Fail(err)
	case key == "" && s.UpstreamEndpoint() != "": // which run gives no key
	case key == "":
		c.Add(Warning, "put it into YOUTUBE_API_KEY, or give --key-file to run", "no API key in the environment")
	case file != "":
		c.Add(OK, "", "key file %s", human.Name(file))
	}
}
