package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// configFile returns the path of a configuration file.
func (a *app) configFile(name string) (string, error) {
	return client.ConfigFile(name, a.env(a.configDir, "RATION_CONFIG"), a.getenv)
}

// prices loads costs.yaml, and makes an --endpoint priced as the upstream's own.
func (a *app) prices() (*costs.Table, error) {
	path, err := a.configFile("costs.yaml")
	if err != nil {
		return nil, err
	}
	table, err := costs.Load(path)
	if err != nil {
		return nil, &configError{err}
	}
	if endpoint := a.env(a.endpoint, "RATION_ENDPOINT"); endpoint != "" {
		if table, err = table.WithEndpoint("", endpoint); err != nil {
			return nil, &configError{err}
		}
	}
	return table, nil
}

// pricesAndRegions loads costs.yaml and regions.yaml.
func (a *app) pricesAndRegions() (*costs.Table, *jobs.Config, error) {
	table, err := a.prices()
	if err != nil {
		return nil, nil, err
	}
	config, err := a.regions(table)
	return table, config, err
}

// regions loads regions.yaml, checked against the prices.
func (a *app) regions(table *costs.Table) (*jobs.Config, error) {
	return a.regionsIn(table, jobs.Lane)
}

// regionsIn is regions for calls of a lane: a budget may cover one lane and
// not another.
func (a *app) regionsIn(table *costs.Table, lane string) (*jobs.Config, error) {
	path, err := a.configFile("regions.yaml")
	if err != nil {
		return nil, err
	}
	config, err := jobs.Load(path, func(method string, caller quota.Caller) error {
		caller.Lane = lane
		err := table.CheckFetched(method, caller)
		if errors.Is(err, costs.ErrNoBudget) && lane != jobs.Lane {
			return fmt.Errorf("%w (in lane %s)", err, human.Name(lane))
		}
		return err
	})
	if err != nil {
		return nil, &configError{err}
	}
	return config, nil
}

// state returns the folder of what ration keeps, without making it.
func (a *app) state() (string, error) {
	if a.stateDir != "" {
		return a.stateDir, nil
	}
	return client.StateFolder(a.getenv)
}

// makeState returns the state folder, made for its owner alone when it is missing.
func (a *app) makeState() (string, error) {
	dir, err := a.state()
	if err != nil {
		return "", err
	}
	if err := privatefile.MkdirAll(dir); err != nil {
		return "", &configError{fmt.Errorf("state folder: %w; make it writable, or name another with --state", err)}
	}
	return dir, nil
}

// key returns the API key, from a file or the environment; it is never on the
// command line, and from here on never in what is printed.
func (a *app) key(file string) (string, error) {
	key, where := a.getenv("YOUTUBE_API_KEY"), "YOUTUBE_API_KEY"
	if file != "" {
		data, err := privatefile.ReadSecret(file)
		if err != nil {
			return "", &configError{fmt.Errorf("key file: %w; name one that holds the API key", err)}
		}
		key, where = string(data), "key file "+file
	}
	key = strings.TrimSpace(key)
	if file != "" && key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) || len(key) > 1000 {
		return "", &configError{fmt.Errorf("%s: it must hold the API key on one line and nothing else", where)}
	}
	a.conceal(key)
	return key, nil
}
