package strictyaml

import (
	"math"
	"strconv"
	"strings"
)

// Decimal reads a number that is not negative, with up to 6 decimals and
// without exponent, and returns it in millionths, at most most.
func (n Node) Decimal(most int64) int64 {
	if n.isScalar() {
		if _, isText := n.text(); !isText {
			if value, ok := ParseMillionths(firstToken(n.node).Value); ok && value <= most {
				return value
			}
		}
	}
	n.Mistake("%s is %s: write a number from 0 to %d with up to 6 decimals, such as 0.25",
		n.name, n.describe(), most/1_000_000)
	return 0
}

// ParseMillionths reads a number such as 12.50 in millionths.
func ParseMillionths(text string) (int64, bool) {
	whole, fraction, hasFraction := strings.Cut(text, ".")
	isWhole := isDecimal(whole) && !strings.HasPrefix(whole, "-")
	isFraction := !hasFraction || 0 < len(fraction) && len(fraction) <= 6
	if !isWhole || !isFraction {
		return 0, false
	}
	units, err := strconv.ParseInt(whole, 10, 64)
	part, failed := strconv.ParseUint(fraction+strings.Repeat("0", 6-len(fraction)), 10, 64)
	if err != nil || failed != nil || units > math.MaxInt64/1_000_000-1 {
		return 0, false
	}
	return units*1_000_000 + int64(part), true
}
