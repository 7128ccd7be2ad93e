package human

import (
	"strconv"
)

// Was is the verb for n things.
func Was[N ~int | ~int64](n N) string {
	if n == 1 {
		return "was"
	}
	return "were"
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
