package jobs_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
)

// TestFetcherWithoutRegionsYAML: without a Config, calls wait as long as
// regions.yaml's defaults say. A costs.yaml without the upstream and a
// malformed endpoint are mistakes of the configuration.
func TestFetcherWithoutRegionsYAML(t *testing.T) {
	const another = "version: 1\naccount: a\ncosts: {get: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"
	for name, c := range map[string]struct {
		costs, endpoint string
		ok              bool
	}{
		"as it is":             {pricelist + plenty, "", true},
		"another upstream":     {another, "", false},
		"a malformed endpoint": {pricelist + plenty, "http://[::1", false},
		"an unguarded one":     {pricelist + plenty, "http://127.0.0.1:1", false},
	} {
		table, err := costs.Parse("costs.yaml", []byte(c.costs))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		guarded, err := client.New(table, &client.Options{State: dir, Ledger: "sqlite:" + filepath.Join(dir, "ration.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer guarded.Close()
		fetcher := &jobs.Fetcher{Client: guarded, Endpoint: c.endpoint}
		runner, err := fetcher.NewRunner(t.Context())
		_, mistake := errors.AsType[*client.ConfigError](err)
		if c.ok != (err == nil && runner != nil) || !c.ok && !mistake {
			t.Errorf("%s: %v, %v; want a runner %t, or a ConfigError", name, runner, err, c.ok)
		}
	}
}
