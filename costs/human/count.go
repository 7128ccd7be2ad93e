package human

import (
	"strconv"

	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/quota"
)

// Count writes a number of things: 1 unit, 2 units, 1 entry, 2 entries. thing
// is the singular of a regular English noun.
func Count[N int | int64 | quota.Units](n N, thing string) string { return textfmt.Count(n, thing) }

// Was is the verb for n things.
func Was[N int | int64 | quota.Units](n N) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// Amount writes an amount in a budget's measure: 1 unit, 20 calls.
func Amount(n quota.Units, measure string) string {
	return quota.Measure(measure).Text(n)
}

// Grouped writes a number with its thousands apart: 4,112.
func Grouped[N int | int64](n N) string {
	digits, sign := strconv.FormatInt(int64(n), 10), ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Name returns a name from outside, quoted if it has characters that a
// terminal would obey or not show.
func Name(name string) string { return textfmt.Name(name) }

// Scope names a budget or, if budget is empty, its whole account, or one key of
// it: account my-project, or search of key acme.
func Scope(account, budget, key string) string {
	name := Name(budget)
	if budget == "" {
		name = "account " + Name(account)
	}
	if key != "" {
		name += " of key " + Name(key)
	}
	return name
}
