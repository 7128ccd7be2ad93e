package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// defineCaller defines the flags that attribute calls. Their defaults are those of
// a program of regions.yaml, if it calls ration.
func (a *app) defineCaller(flags *pflag.FlagSet, caller *quota.Caller, lane string) {
	flags.StringVar(&caller.Region, "region", a.getenv("RATION_REGION"), "the region that the calls are for")
	flags.StringVar(&caller.Job, "job", a.getenv("RATION_JOB"), "the job that makes the calls")
	flags.StringVar(&caller.Lane, "lane", cmp.Or(a.getenv("RATION_LANE"), lane), "the lane of the calls: cron, backfill, manual, or another that costs.yaml names")
}

// callerOf returns the caller that flags describe, as budgets write it.
func callerOf(table *costs.Table, caller quota.Caller) (quota.Caller, error) {
	known, err := knownCaller(table, caller)
	if err != nil {
		return caller, &usageError{fmt.Errorf("--%w", err)}
	}
	return known, nil
}

// knownCaller returns a caller as the budgets of a table write it. It refuses an
// unknown lane and an unknown country, probably typos: the call would pass by the
// budgets and floors that were meant. Other names of regions are free.
func knownCaller(table *costs.Table, caller quota.Caller) (quota.Caller, error) {
	if caller.Lane != "" {
		if err := knownLane(table, caller.Lane); err != nil {
			return caller, err
		}
	}
	caller.Region = spellRegion(caller.Region, table)
	var err error
	switch {
	case caller.Region == "", slices.Contains(table.Regions(), caller.Region):
	case len(caller.Region) == 2 && !table.HasFreeRegions():
		err = jobs.CheckRegionCode(caller.Region)
	default:
		err = costs.CheckRegionName(caller.Region)
	}
	if err != nil {
		return caller, fmt.Errorf("region: %w", err)
	}
	return caller, nil
}

// spellRegion returns a region as costs.yaml writes it, or a country code in
// capitals.
func spellRegion(name string, table *costs.Table) string {
	known := table.Regions()
	if i := slices.IndexFunc(known, func(region string) bool { return strings.EqualFold(region, name) }); i >= 0 {
		return known[i]
	}
	if len(name) == 2 && !table.HasFreeRegions() {
		return strings.ToUpper(name)
	}
	return name
}

// knownLane refuses an unknown lane, probably a typo: its calls would be charged
// to no budget of any lane.
func knownLane(table *costs.Table, lane string) error {
	if known := table.Lanes(); !slices.Contains(known, lane) {
		return fmt.Errorf("lane %q: %s", lane, strictyaml.Advice(lane, known))
	}
	return nil
}
