package human_test

import (
	"testing"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// TestOneUnitIsSaidAsManyAre checks the plurals of everything that is counted.
func TestOneUnitIsSaidAsManyAre(t *testing.T) {
	for want, got := range map[string]string{
		"1 unit": human.Count(1, "unit"), "0 units": human.Count(0, "unit"), "2 entries": human.Count(2, "entry"),
		"1 entry": human.Count(1, "entry"),
		"1 call":  quota.Calls.Text(1), "20 units": quota.ByUnits.Text(20), "1 other": human.Count(1, "other"),
	} {
		if got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
