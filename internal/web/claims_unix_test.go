//go:build unix

package web_test

import (
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
)

// TestThePageShowsAPassOfAnotherHost: the page shows which host has done a pass
// that the catalogue of this one does not have.
func TestThePageShowsAPassOfAnotherHost(t *testing.T) {
	t.Setenv(client.HostEnv, "web-7")
	const regions = "version: 1\nschedule: 0 0 29 2 *\nfetch: [{command: [\"true\"]}]\nregions: {emea: {}}\n"
	s := newScene(t, sceneOptions{regions: regions})
	config, err := jobs.Parse("regions.yaml", []byte(regions), nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	runner := &jobs.Runner{Catalog: store, Host: s.Host(), Guard: s.Guard(), Table: s.Table()}
	report, err := runner.Run(t.Context(), config.Regions)
	if err != nil || report.Outcome != jobs.Complete {
		t.Fatal(report, err)
	}
	contains(t, s.fetch("/").text, "emea: web-7 (pid ", "has done the pass of", "<dd>web-7</dd>")
}
