package decide

import (
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestFoldedAlikeLookAlike: what is stored under one name is what
// CheckLookAlike refuses.
func TestFoldedAlikeLookAlike(t *testing.T) {
	names := []string{"fault", "Fault", " fault\t", "faults", "straße", "STRASSE", "Straße", "ς", "Σ", "σ", "k", "\u212a", "ſ", "S", "é", "É"}
	for _, a := range names {
		for _, b := range names {
			if alike := a == b || quota.CheckLookAlike(a, b) != nil; (Fold(a) == Fold(b)) != alike {
				t.Errorf("%q and %q: folded %q and %q; alike: %v", a, b, Fold(a), Fold(b), alike)
			}
		}
	}
}
