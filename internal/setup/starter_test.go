package setup_test

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// TestStarterFilesAreValid: for every preset and a host, with hostile words
// in what the user may say, the files are read without a mistake and say what
// was asked.
func TestStarterFilesAreValid(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every preset, again and again")
	}
	asked := map[string]setup.StarterOptions{}
	for _, p := range costs.Presets() {
		o := setup.StarterOptions{}
		for _, ask := range p.Required {
			switch {
			case ask.Line == "hosts":
				o.Host = "mine.example.com"
			case ask.Line == "resets":
				o.Zone = "Europe/Berlin"
			case strings.HasPrefix(ask.Write, "preset: "):
				o.Variant = p.Variants[0].Name
			case strings.HasSuffix(ask.Line, ".limit") && o.Variant == "":
				o.Limit = 115000
			}
		}
		asked[p.Name] = o
	}
	apis := []string{"api.example.com", "youtube"}
	for _, p := range costs.Presets() {
		apis = append(apis, p.Name)
	}
	for _, api := range apis {
		o := asked[api]
		o.API, o.Account = api, "my: #project \"a\""
		o.Command, o.Regions = []string{"./fetch it.sh", "{region}", "a: b", "#c"}, []string{"US", "IN"}
		f, err := setup.NewFiles(o)
		if err != nil {
			t.Errorf("%s: %v", api, err)
			continue
		}
		table, err := costs.Parse("costs.yaml", []byte(f.Costs))
		if err != nil || table.Accounts()[0] != o.Account {
			t.Errorf("%s: %v; want account %q of\n%s", api, err, o.Account, f.Costs)
			continue
		}
		config, err := jobs.Parse("regions.yaml", []byte(f.Regions), table.CheckFetched)
		if err != nil || len(config.Regions) != 2 || f.Program != o.Command[0] {
			t.Errorf("%s: %v; want two regions and %s of\n%s", api, err, o.Command[0], f.Regions)
		}
	}
}

// TestAStarterMakesNothingUp: a limit or host that a preset asks
// for is named, not made up.
func TestAStarterMakesNothingUp(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every preset, again and again")
	}
	for api, flags := range map[string]string{"hubspot": "--variant enterprise|free|professional",
		"salesforce":      "--host HOST and --limit UNITS",
		"shopify-graphql": "--host HOST and --variant advanced|enterprise|plus|standard"} {
		limits := []quota.Units{0}
		if strings.Contains(flags, "--variant") {
			limits = append(limits, 5) // which the variant decides
		}
		for _, limit := range limits {
			_, err := setup.NewFiles(setup.StarterOptions{API: api, Limit: limit})
			if err == nil || !strings.Contains(err.Error(), "preset "+api+" needs "+flags+"; ") {
				t.Errorf("%s: %v; want %s", api, err, flags)
			}
		}
	}
	for api, want := range map[string]string{"localhost": `"localhost"]`,
		"https://api.vendor.internal:8080/v1": `"api.vendor.internal:8080"]`,
		"http://vm:18950":                     `"vm:18950"]` + "\ninsecure: [\"vm:18950\"]",
		"http://[::1]:80":                     `"[::1]:80"]` + "\ninsecure: "} {
		if f, err := setup.NewFiles(setup.StarterOptions{API: api}); err != nil ||
			!strings.Contains(f.Costs, "\nhosts: ["+want) {
			t.Errorf("%s: %v; want %s", api, err, want)
		}
	}
	neither := "neither a preset nor a host"
	for api, want := range map[string]string{"": "name the upstream", "nope": neither,
		"vm": "written http://vm or https://vm", "vm:80": "written http://vm:80 or https://vm:80",
		"google": "several presets are for google: write google-ads, or ", "ftp://api.example.com": neither,
		"localhost:8080": "written http://localhost:8080 or https://localhost:8080"} {
		if _, err := setup.NewFiles(setup.StarterOptions{API: api}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", api, err, want)
		}
	}
}

// TestAStarterIgnoresNoOption: what the files would not show is refused, and so
// is a mistake that no option corrects.
func TestAStarterIgnoresNoOption(t *testing.T) {
	for want, o := range map[string]setup.StarterOptions{
		"slack does not ask for a limit":             {API: "slack", Limit: 5},
		"slack does not ask for a zone":              {API: "slack", Zone: "UTC"},
		"youtube does not ask for a host":            {API: "youtube", Host: "api.example.com"},
		"hubspot does not ask for a limit":           {API: "hubspot", Variant: "free", Limit: 5},
		"api.example.com does not ask for a variant": {API: "api.example.com", Variant: "free"},
		"api.example.com does not ask for a zone":    {API: "api.example.com", Zone: "Nowhere/None"},
		"account looks like an API key": {API: "salesforce", Host: "a.my.salesforce.com", Limit: 5,
			Account: "AIza" + strings.Repeat("x", 35)},
		"unknown variant": {API: "github-rest", Variant: "nope"},
		"salesforce has no variants": {API: "salesforce", Host: "a.my.salesforce.com", Limit: 5,
			Variant: "x"},
	} {
		if _, err := setup.NewFiles(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %s", o, err, want)
		}
	}
	_, err := setup.NewFiles(setup.StarterOptions{API: "hubspot", Variant: "fre", Zone: "Berlin"})
	if want := `unknown variant of hubspot "fre": write free`; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}
