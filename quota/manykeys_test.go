package quota_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// BenchmarkManyKeys spends for keys in turn, each of which has a limit.
func BenchmarkManyKeys(b *testing.B) {
	for _, keys := range []int{1, 1_000, 100_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			shared, minute, day := budget("shared", quota.MaxLimit, time.Hour), perKey("minute", 60_000_000, time.Minute), perKey("day", 500_000_000, 24*time.Hour)
			guard := newGuard(b, nil, shared, minute, day)
			names := make([]string, keys)
			for i := range names {
				names[i] = "tenant " + strconv.Itoa(i)
			}
			c := call("list", 1)
			for n := 0; b.Loop(); n++ {
				c.Key = names[n%keys]
				if _, err := guard.Spend(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
