package human

import (
	"fmt"
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

// UnitsLeft says that a call is refused since a budget has too little left of
// its limit: all has 1 of 10 units left, m needs 6. What is beside it, such as
// " (3 reserved for other regions)", may be empty.
func UnitsLeft(budget, left, limit, beside, call, needed string) string {
	return fmt.Sprintf("%s has %s of %s left%s, %s needs %s", budget, left, limit, beside, call, needed)
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
