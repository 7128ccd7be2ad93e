package jobs_test

import (
	"cmp"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestAFetcherWithoutRegionsYAMLWaitsByDefault: without a Config, calls wait as
// long as regions.yaml's defaults say. A costs.yaml without the upstream and a
// malformed endpoint are mistakes of the configuration.
func TestAFetcherWithoutRegionsYAMLWaitsByDefault(t *testing.T) {
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
		guarded, err := client.New(table,
			&client.Options{State: dir, Ledger: "sqlite:" + filepath.Join(dir, "ration.db")})
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

// TestFetcherWaitsAsRegionsYAMLSays: the calls of a run wait together for
// max_total_wait at most.
func TestFetcherWaitsAsRegionsYAMLSays(t *testing.T) {
	srv := httptest.NewServer(youtubetest.New(nil))
	defer srv.Close()
	for _, c := range []struct {
		window, total string
		want          jobs.Outcome
	}{{"200ms", "10m", jobs.Complete}, {"30s", "1ms", jobs.Stopped}} {
		table, err := costs.Parse("costs.yaml",
			[]byte(pricelist+"  - {name: all, limit: 1, window: "+c.window+", methods: [videos.list]}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if table, err = table.WithEndpoint("", srv.URL); err != nil {
			t.Fatal(err)
		}
		text := "version: 1\nmax_wait: 1m\nmax_total_wait: " + c.total +
			"\nschedule: \"@monthly\"\nfetch: [trending: {pages: 4}]\nregions: {US: {}}\n"
		config, err := jobs.Parse("regions.yaml", []byte(text), table.CheckFetched)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		videos, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer videos.Close()
		guarded, err := client.New(table, &client.Options{State: dir, Replica: filepath.Join(dir, "replica"),
			Ledger: "sqlite:" + filepath.Join(dir, "ration.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer guarded.Close()
		environ := []string{"OF=the test"}
		runner, err := (&jobs.Fetcher{Client: guarded, Catalog: videos, Config: config,
			Key: func() (string, error) { return "any", nil }, Endpoint: srv.URL, Environ: environ,
			ClaimTime: hostClaimTime}).NewRunner(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		report, err := runner.Run(t.Context(), config.Regions)
		if err != nil || report.Regions[0].Outcome != c.want {
			t.Errorf("at most %s: %s, %v; want it %s", c.total, report.Regions[0].Outcome,
				cmp.Or(err, report.Regions[0].Err), c.want)
		}
		if strings.Join(runner.Environ, "") != environ[0] || runner.ClaimTime != hostClaimTime ||
			runner.Catalog != videos {
			t.Errorf("%+v; want the fields of the Fetcher", runner)
		}
	}
}
