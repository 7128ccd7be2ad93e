package main

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/usage"
)

// TestStatusHidesKeyedLogs: status showed the logs without a key only.
func TestStatusHidesKeyedLogs(t *testing.T) {
	var out bytes.Buffer
	r := inspect.NewReport(time.Now())
	r.Keyed, r.MoreKeys = []usage.KeyReport{{Account: "p", Key: "shop-00003", Budget: "few", Used: 9, Limit: 10,
		Remaining: 1, Measure: "units"}}, []string{"p"}
	(&app{stdout: &out, now: time.Now, getenv: func(string) string { return "" }}).keyedTable(r)
	if !regexp.MustCompile(`(?s)KEY +BUDGET.*\nshop-00003 few +9 +10 +1 units ` +
		`.*account p has more than 200000 keys`).Match(out.Bytes()) {
		t.Errorf("it shows\n%s", out.String())
	}
}
