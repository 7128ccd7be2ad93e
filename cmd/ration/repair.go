package main

import (
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota/journal"
)

// describeRepair says what a restoration of the ledger changed.
func describeRepair(r *journal.Repair, now time.Time) string {
	why := "the ledger was down"
	if r.Lost {
		why = "the ledger had lost entries"
	}
	text := fmt.Sprintf("%s ago %s of %s: this host restored %s of %s", human.Duration(now.Sub(r.At)), why, human.Name(r.Account), human.Count(r.Entries, "call"), human.Count(r.Units, "unit"))
	if r.Noted > 0 {
		text += fmt.Sprintf(", and noted %s that others had spent", human.Count(r.Noted, "unit"))
	}
	return text
}
