package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// CheckCaller returns a caller as the budgets of a table write it. It refuses
// an unknown lane and an unknown country, probably typos: the call would pass
// by the budgets and floors that were meant. Other names of regions are free.
func CheckCaller(table *costs.Table, caller quota.Caller) (quota.Caller, error) {
	if caller.Lane != "" {
		if err := CheckLane(table, caller.Lane); err != nil {
			return caller, err
		}
	}
	if len(caller.Job) > quota.MaxLabel {
		return caller, fmt.Errorf("job: a name of more than %d bytes; shorten it", quota.MaxLabel)
	}
	written := caller.Region
	caller.Region = SpellRegion(written, table)
	var err error
	switch {
	case caller.Region == "", slices.Contains(table.Regions(), caller.Region):
	case len(caller.Region) == 2 && !table.HasFreeRegions():
		if err = jobs.CheckRegionCode(caller.Region); err != nil {
			err = jobs.CheckRegionCode(written)
		}
	default:
		err = costs.CheckRegionName(caller.Region)
	}
	if err != nil {
		return caller, fmt.Errorf("region: %w", err)
	}
	return caller, nil
}

// CheckRegions returns an error if a region of regions.yaml has a name that
// CheckCaller refuses or respells in a program's calls.
func CheckRegions(table *costs.Table, regions []jobs.Region) error {
	for i := range regions {
		if err := checkSpelling(table, regions[i].Name); err != nil {
			return err
		}
	}
	return nil
}

func checkSpelling(table *costs.Table, region string) error {
	known, err := CheckCaller(table, quota.Caller{Region: region})
	switch {
	case err != nil:
		return fmt.Errorf("%w, or a name of more letters", err)
	case known.Region != region:
		return fmt.Errorf("region %s: its calls would be charged to %s: write %[2]s", region, known.Region)
	}
	return nil
}

// SpellRegion returns a region as costs.yaml writes it, or a country code
// in capitals.
func SpellRegion(name string, table *costs.Table) string {
	known := table.Regions()
	if i := slices.IndexFunc(known, func(region string) bool { return strings.EqualFold(region, name) }); i >= 0 {
		return known[i]
	}
	if len(name) == 2 && !table.HasFreeRegions() {
		return strings.ToUpper(name)
	}
	return name
}

// CheckLane refuses an unknown lane, probably a typo: its calls would be
// charged to no budget of any lane.
func CheckLane(table *costs.Table, lane string) error {
	if known := table.Lanes(); !slices.Contains(known, lane) {
		return fmt.Errorf("lane %q: %s", lane, strictyaml.Advice(lane, known))
	}
	return nil
}
