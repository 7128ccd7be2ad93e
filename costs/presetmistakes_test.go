package costs_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

func TestParseReportsAllMistakesWithPresets(t *testing.T) {
	const head = "version: 1\naccount: a\n"
	var shipped []string
	for _, p := range costs.Presets() {
		shipped = append(shipped, p.Name)
	}
	for lines, want := range map[string]string{
		"preset: youtube/2026-6": `3:9: unknown preset "youtube/2026-6": write youtube/2026-06`,
		"preset: nope\nhosts: [a]": `3:9: unknown preset "nope": write one of ` + strings.Join(shipped,
			", "),
		"preset: {variant: x}": `3:9: missing key "name": write name: youtube/2026-06`,
		"preset: {name: github-rest, variant: pro}": `3:38: unknown variant of github-rest "pro": write one of ` +
			`anonymous, enterprise`,
		"preset: {name: salesforce, variant: x}\nhosts: [a]\nbudgets: " +
			"[{name: salesforce, limit: 9}]": `3:37: preset salesforce has no variants: remove it`,
		"preset: salesforce": `3:9: preset salesforce does not know the hosts: write hosts: ` +
			`[my-domain.my.salesforce.com]` + "\n" +
			`3:9: preset salesforce does not know the limit of budget "salesforce": write budgets: [{name: ` +
			`salesforce, limit: 115000}]  # 100,000 and 1,000 for each licence, 5,000 with Unlimited`,
		"preset: {name: hubspot, variant: free}": `3:9: preset hubspot does not know the resets: write resets: ` +
			`{day: Europe/Berlin}  # the time zone of the HubSpot account` + "\n" +
			`3:9: preset hubspot does not know the window of budget "hubspot-day": write budgets: [{name: ` +
			`hubspot-day, window: {day: Europe/Berlin}}]  # with the time zone of the HubSpot account`,
		"preset: hubspot\nresets: {day: UTC}": `3:9: preset hubspot does not know the limit of budget ` +
			`"hubspot-10s": write preset: {name: hubspot, variant: professional}  # or the account's other tier: ` +
			`free, enterprise` + "\n" +
			`3:9: preset hubspot does not know the limit of budget "hubspot-day": write preset: {name: hubspot, ` +
			`variant: professional}  # or the account's other tier: free, enterprise` + "\n" +
			`3:9: preset hubspot does not know the window of budget "hubspot-day": write budgets: [{name: ` +
			`hubspot-day, window: {day: Europe/Berlin}}]  # with the time zone of the HubSpot account`,
		"preset: shopify-graphql\nhosts: [a]": `3:9: preset shopify-graphql does not know the limit of budget ` +
			`"shopify": write preset: {name: shopify-graphql, variant: standard}  # or the shop's other plan: ` +
			`advanced, plus, enterprise`,
		"preset: github-rest\nbudgets: [{name: github-hours, limit: 100}, {name: github-hour}, {name: github-hour, " +
			"limit: 1}]": `4:11: missing key "window": preset github-rest has no budget "github-hours" to take it ` +
			`from: write github-hour, or its window` + "\n" +
			`4:66: repeated budget "github-hour" in one account: write another name`,
		"preset: github-rest\ncosts: {read: 901, wrote: 1}": `4:15: read costs 901, more than the limit 900 of ` +
			`budget "github-points": lower the cost or raise the limit`,
		"preset: github-rest\ncosts: {grapqhl: 1}": `4:9: unknown method "grapqhl": write graphql, to ` +
			`which the routes lead`,
		"preset: youtube/2026-06\nroutes: {GET /x: read}": `4:9: routes beside an api: remove one, since api ` +
			`youtube/v3 says which verb and path is which method`,
		"preset: youtube/2026-06\n---\n" + head +
			"preset: youtube/legacy": "7:9: repeated host youtube.googleapis.com: write it once, since a request " +
			"finds its upstream by host\n" +
			"7:9: repeated host www.googleapis.com: write it once, since a request finds its upstream by host\n" +
			"7:9: repeated host youtube.mtls.googleapis.com: write it once, since a request finds its upstream by " +
			"host\n" +
			"7:9: repeated host content-youtube.googleapis.com: write it once, since a request finds its upstream " +
			"by host\n" +
			"7:9: repeated upstream \"youtube\": write another name\n" +
			"7:9: repeated budget \"youtube-day\" in one account: write another name",
	} {
		expectAll(t, head+lines+"\n", want)
	}
}

// TestCallsInFlightBesideAPresetNeedAWindow: a budget of one's own beside those
// of a preset may count calls in flight, and its window is from that line.
func TestCallsInFlightBesideAPresetNeedAWindow(t *testing.T) {
	u := use(t, "preset: slack\nbudgets: [{name: mine, limit: 5, in_flight: true}]").Upstreams()[0]
	if got := u.Origin("budgets", "mine", "window"); got.Line != 4 {
		t.Errorf("the window is from %s", got)
	}
}

// A limit below the cost of a method of the preset is not a mistake: only a
// call of that method is an error.
func TestCheckFetchedReportsCallsThatNeverFit(t *testing.T) {
	table := use(t, "preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 300, floor: {IN: 150, US: 60}}]")
	for method, regions := range map[string]map[string]bool{
		"captions.insert": {"IN": false, "US": false, "GB": false},
		"search.list":     {"IN": true, "US": true, "GB": false},
		"videos.list":     {"IN": true, "GB": true, "": true},
	} {
		for region, fits := range regions {
			err := table.CheckFetched(method, quota.Caller{Region: region})
			if fits != (err == nil) || err != nil && !errors.Is(err, quota.ErrNeverFits) {
				t.Errorf("%s for %q: %v", method, region, err)
			}
		}
	}
	until := use(t,
		"preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 300, floor: {IN: 300}, floor_until: 1h}]")
	if err := until.CheckFetched("videos.list", quota.Caller{Region: "GB"}); err != nil {
		t.Errorf("it fits in the last hour: %v", err)
	}
}
