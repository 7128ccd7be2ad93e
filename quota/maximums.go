package quota

import (
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// The bounds of what a call, a budget and a log may be.
const (
	MaxUnits Units = 1<<31 - 1 // the most that one call may cost
	// MaxLimit is the highest limit of a budget. Sums up to it are exact in
	// every ledger, including those that compute in floating point.
	MaxLimit Units = 1<<47 - 1

	MaxKey       = engine.MaxKey        // the most bytes in a Call.Key
	MaxLabel     = 128                  // the most bytes in a method, lane, job or region
	MaxReason    = 200                  // the most bytes in the reason of a cooldown; longer ones are truncated
	MaxClaimNote = engine.MaxClaimNote  // the most bytes of a note of a claim
	MaxTogether  = 1000                 // the most calls that SpendTogether takes
	MaxCoverages = 64                   // how many different coverages an account may have; each floor has its own
	MaxMeasures  = engine.MaxMeasures   // how many measures an account can have, with units and calls
	MaxKeyLimits = 1000                 // how many keys of a budget may have limits of their own
	MaxKeys      = 200_000              // the most keys that TopKeys reads
	MaxHistory   = 400 * 24 * time.Hour // the longest window, and the longest time that a log keeps its entries

	// DefaultMargin is the margin of a day, week or month: the largest difference
	// between the clocks of the upstream and the ledger that is harmless at its
	// boundary.
	DefaultMargin = 30 * time.Second

	// MaxClockSkew is the largest difference between the clocks of a ledger and a
	// host that is not worth a warning.
	MaxClockSkew = time.Minute
)
