package costs

import (
	"math/big"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// readBucket reads {restore: 50/s}, or {restore: 1, every: 60s}.
func readBucket(n strictyaml.Node) quota.Window {
	var restore strictyaml.Node
	var every time.Duration
	n.Fields(
		strictyaml.Field{Key: "restore", Missing: "restore: 50/s, how fast the bucket refills",
			Read: func(n strictyaml.Node) { restore = n }},
		strictyaml.Field{Key: "every", Read: func(n strictyaml.Node) { every = readLength(n) }},
	)
	if restore == (strictyaml.Node{}) {
		return quota.Window{}
	}
	if every > 0 {
		return quota.Bucket(quota.Units(restore.Int(1, int64(quota.MaxUnits))), every)
	}
	const advice = "a rate such as 50/s, 1/60s or 0.0167/s"
	if restore.Kind() == strictyaml.Integer {
		restore.Mistake("restore is without a time: write %s", advice)
		return quota.Window{}
	}
	text := restore.Text(maxText)
	if units, in, ok := parseRate(text); ok {
		return quota.Bucket(units, in)
	}
	if text != "" {
		restore.Mistake("%q is not how fast a bucket refills: write %s", text, advice)
	}
	return quota.Window{}
}

// slowest is the longest time in which a bucket gets back one unit.
const slowest = quota.MaxHistory / 4

// precise bounds the time in which a decimal rate restores a whole number of
// units. Instead of a longer one it is the time for one unit if that is a
// second or more, rounded up by less than a millionth.
const precise = 100 * time.Second

// parseRate parses a rate such as 50/s, 1/60s or 0.0167/s.
func parseRate(text string) (restore quota.Units, every time.Duration, ok bool) {
	amount, per, _ := strings.Cut(text, "/")
	if per != "" && strings.Trim(per, "smhd") == "" {
		per = "1" + per
	}
	length, err := human.ParseDuration(per)
	rate, isNumber := new(big.Rat).SetString(amount)
	isDecimal := isNumber && len(amount) <= 12 && strings.Trim(amount, "0123456789.") == ""
	if err != nil || !isDecimal || rate.Sign() <= 0 {
		return 0, 0, false
	}
	isWhole := length >= time.Millisecond && length%time.Microsecond == 0
	if !isWhole || length > quota.MaxHistory {
		return 0, 0, false
	}
	units, in := rate.Num(), new(big.Int).Mul(rate.Denom(), big.NewInt(length.Microseconds()))
	if limit := big.NewInt(precise.Microseconds()); !rate.IsInt() && in.Cmp(limit) > 0 {
		whole := new(big.Int).Mul(units, limit)
		if whole.Div(whole, in); whole.Cmp(big.NewInt(int64(precise/time.Second))) <= 0 {
			whole.SetInt64(1)
		}
		units, in = whole, ceilDiv(in.Mul(in, whole), units)
	}
	isSlow := new(big.Rat).SetFrac(in, units).Cmp(big.NewRat(slowest.Microseconds(), 1)) > 0
	if isSlow || units.Cmp(big.NewInt(int64(quota.MaxUnits))) > 0 {
		return 0, 0, false
	}
	return quota.Units(units.Int64()), time.Duration(in.Int64()) * time.Microsecond, true
}

func ceilDiv(a, b *big.Int) *big.Int {
	quotient, rest := new(big.Int).QuoRem(a, b, new(big.Int))
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	return quotient
}
