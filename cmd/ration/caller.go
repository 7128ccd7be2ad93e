package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
)

// defineCaller defines the flags that attribute calls. Their defaults are those
// of a program of regions.yaml, if it calls ration.
func (a *app) defineCaller(flags *pflag.FlagSet, caller *quota.Caller, lane string) {
	flags.StringVar(&caller.Region, "region", a.getenv("RATION_REGION"), "the region that the calls are for")
	flags.StringVar(&caller.Job, "job", a.getenv("RATION_JOB"), "the job that makes the calls")
	flags.StringVar(&caller.Lane, "lane", cmp.Or(a.getenv("RATION_LANE"), lane),
		"the lane of the calls: cron, backfill, manual, or another that costs.yaml names")
}

// defineKey defines the flag for the key of calls.
func (a *app) defineKey(flags *pflag.FlagSet, key *string) {
	flags.StringVar(key, "key", a.getenv("RATION_KEY"),
		"the `key` of the calls, such as a tenant, which budgets with per: key limit for itself")
}

// defineShare defines the flag for what a run may take.
func (a *app) defineShare(flags *pflag.FlagSet) {
	flags.Var(cli.ShareFlag{Part: &a.maxShare}, "max-share",
		"the part of what is left of each budget of an hour or more that this run may take: 20%")
}

// checkKey returns an error for a key that is malformed.
func checkKey(key string) error {
	if err := engine.CheckKey(key); err != nil {
		return &cli.Error{Err: fmt.Errorf("--key: %w", err)}
	}
	return nil
}

// callerOf returns the caller that flags describe, as budgets write it.
func (a *app) callerOf(table *costs.Table, caller quota.Caller) (quota.Caller, error) {
	known, err := setup.CheckCaller(table, caller)
	if err != nil {
		return caller, cli.CallerError(err, caller, a.getenv)
	}
	return known, nil
}
