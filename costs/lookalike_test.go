package costs_test

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

// TestTwoSpellingsOfOneAccountAreAMistake: documents whose accounts differ only
// in case or in spaces would each have the whole limit.
func TestTwoSpellingsOfOneAccountAreAMistake(t *testing.T) {
	file := func(account string) string {
		return "version: 1\nupstream: one\naccount: Fault\nhosts: [one.example]\nroutes: {\"GET /x\": m}\ncosts: " +
			"{m: 1}\nbudgets: [{name: day, limit: 500, window: 24h}]\n---\n" +
			"version: 1\nupstream: two\naccount: " + account +
			"\nhosts: [two.example]\nroutes: {\"GET /x\": m}\ncosts: {m: 1}\nbudgets: [{name: week, limit: 500, " +
			"window: 24h}]\n"
	}
	for account, alike := range map[string]bool{"Fault": false, "fault": true, "FAULT": true, "Fault2": false} {
		_, err := costs.Parse("costs.yaml", []byte(file(account)))
		if refused := err != nil && strings.Contains(err.Error(), "costs.yaml:11:") &&
			strings.Contains(err.Error(), "differs from account \"Fault\" only in case or spaces"); refused != alike ||
			err != nil && !refused {
			t.Errorf("%s: %v; want refused %t", account, err, alike)
		}
	}
}
