package decide

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestShares compares the shares of an estimate with exact arithmetic: rounded
// up, and longestShare is the longest part whose share still fits.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(1, 400*24*3600*1e6).Draw(t, "whole")
		part := rapid.Int64Range(0, whole).Draw(t, "part")
		count := rapid.Int64Range(0, 1<<47).Draw(t, "count")
		product := new(big.Int).Mul(big.NewInt(count), big.NewInt(part))
		quotient, rest := new(big.Int).QuoRem(product, big.NewInt(whole), new(big.Int))
		want := quotient.Int64()
		if rest.Sign() > 0 {
			want++
		}
		if got := share(count, part, whole); got != want {
			t.Fatalf("share(%d, %d, %d) = %d; want %d", count, part, whole, got, want)
		}
		left := rapid.Int64Range(0, 1<<47).Draw(t, "left")
		longest := longestShare(left, count, whole)
		if longest < 0 || longest > whole || share(count, longest, whole) > left || longest < whole && share(count, longest+1, whole) <= left {
			t.Fatalf("longestShare(%d, %d, %d) = %d", left, count, whole, longest)
		}
	})
}
