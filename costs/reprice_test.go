package costs_test

import (
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// TestRepriceAsksThePriceAndSettlesToWhatTheLogSays: a replay asked what a
// settled call cost in the end, and so admitted calls that the guard refuses.
func TestRepriceAsksThePriceAndSettlesToWhatTheLogSays(t *testing.T) {
	parse := func(feedback, prices, batches string) *costs.Table {
		table, err := costs.Parse("costs.yaml",
			[]byte("version: 1\nupstream: u\naccount: p\nhosts: [api.example.com]\nroutes: {'POST /{method}': "+
				"'{method}'}\n"+
				"feedback: "+feedback+"\ncosts: "+prices+"\n"+batches+"not_modified_units: 1\n"+
				"budgets: [{name: b, limit: 100000, window: 24h}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	const batches = "batches: {batch: {list: requests, most: 25}}\n"
	generic, answers := parse("generic", "{m: 100, batch: 2}", batches), parse("openai", "{m: 100, batch: 2}", batches)
	other, singly := parse("generic", "{m: 30, batch: 5}", batches), parse("generic", "{m: 30}", "")
	for name, c := range map[string]struct {
		now, other  *costs.Table
		method      string
		units       quota.Units
		asked, cost quota.Units
	}{
		"at its price":                  {generic, other, "m", 100, 30, 30},
		"at its price, which stays":     {generic, generic, "m", 100, 100, 100},
		"settled to less":               {generic, other, "m", 55, 30, 17},
		"settled to less, same price":   {generic, generic, "m", 55, 100, 55},
		"settled to nothing":            {generic, other, "m", 0, 30, 0},
		"not modified":                  {generic, other, "m", 1, 30, 1},
		"spent with units":              {generic, other, "m", 250, 250, 250},
		"an answer said less":           {answers, other, "m", 55, 30, 55},
		"an answer said more":           {answers, other, "m", 250, 30, 250},
		"a batch of 7":                  {generic, other, "batch", 14, 35, 35},
		"part of a batch":               {generic, other, "batch", 1, 5, 1},
		"a method without a cost":       {generic, other, "other", 40, 40, 40},
		"a method that loses its cost":  {generic, singly, "batch", 14, 14, 14},
		"a multiple that is no batch":   {generic, other, "m", 200, 200, 200},
		"free, of an unknown method":    {generic, other, "other", 0, 0, 0},
		"of an account that is unknown": {generic, other, "m", 100, 30, 30},
	} {
		account := "p"
		if name == "of an account that is unknown" {
			account, c.asked, c.cost = "q", 100, 100
		}
		if asked, cost := c.now.Reprice(c.other)(account, c.method, c.units); asked != c.asked || cost != c.cost {
			t.Errorf("%s: asks %d and costs %d; want %d and %d", name, asked, cost, c.asked, c.cost)
		}
	}
}
