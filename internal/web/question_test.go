package web_test

import (
	"net/url"
	"testing"
)

const floorCosts = `
version: 1
account: my-project
costs: {videos.list: 1}
budgets: [{name: all, limit: 10, window: 24h, floor: {IN: 5}}]
`

// TestARegionMayBeWrittenInSmallLetters: the page asked the guard for the
// region in, which has no floor, and found no entry of it. The commands take it
// for IN.
func TestARegionMayBeWrittenInSmallLetters(t *testing.T) {
	s := newScene(t, sceneOptions{costs: floorCosts})
	s.spend("videos.list", "US", "trending", 4)
	s.spend("videos.list", "IN", "trending", 1)
	s.spend("videos.list", "US", "trending", 1)
	for region, want := range map[string]string{"in": "It would pass.", "IN": "It would pass.",
		"us": "It would be refused: all has 0 ", "-": "It would be refused: all has 0 "} {
		page := s.fetch("/?" + url.Values{"call": {"videos.list"}, "region": {region}}.Encode()).text
		contains(t, page, "<strong>"+want)
	}
	contains(t, s.fetch("/?q=region:in").text, `<td class="desk">trending</td><td>IN</td>`)
}

// TestCallsInFlightHaveNoSpenders: the page said that it reads them, always.
func TestCallsInFlightHaveNoSpenders(t *testing.T) {
	s := newScene(t,
		sceneOptions{costs: "version: 1\naccount: my-project\ncosts: {videos.list: 1}\nbudgets: [{name: few, limit: " +
			"10, in_flight: true}]\n"})
	s.spend("videos.list", "US", "trending", 1)
	contains(t, s.fetch("/").text, `<p class="note">Calls that have not ended.</p>`)
}
