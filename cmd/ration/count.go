package main

import (
	"fmt"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// counted writes a number of things: 1 unit, 2 units, 1 entry, 2 entries. thing
// is the singular of a regular noun.
func counted[N int | int64 | quota.Units](n N, thing string) string {
	return fmt.Sprintf("%d %s", n, plural(n, thing))
}

// plural returns the noun for n things.
func plural[N int | int64 | quota.Units](n N, thing string) string {
	switch before, y := strings.CutSuffix(thing, "y"); {
	case n == 1:
		return thing
	case y:
		return before + "ies"
	}
	return thing + "s"
}

// were is the verb for n things.
func were[N int | int64 | quota.Units](n N) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// measured writes an amount in a budget's measure: 1 unit, 20 calls.
func measured(n quota.Units, measure string) string {
	return counted(n, strings.TrimSuffix(measure, "s"))
}
