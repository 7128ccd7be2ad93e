package memledger

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRingDiffersFromASlice compares a ring with a slice, over several chunks,
// and its search from any guess.
func TestRingDiffersFromASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r ring[int64]
		var all []int64 // what was pushed, rising
		next := int64(0)
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			for range rapid.IntRange(0, 3*chunkSize).Draw(t, "pushes") {
				next += int64(next%3) + 1
				r.push(next)
				all = append(all, next)
			}
			for range min(len(all), rapid.IntRange(0, 3*chunkSize).Draw(t, "drops")) {
				r.drop()
				all = all[1:]
			}
			if r.tail-r.head != len(all) {
				t.Fatalf("holds %d; want %d", r.tail-r.head, len(all))
			}
			for i := 0; i < len(all); i += 1 + i%97 {
				if got := *r.at(r.head + i); got != all[i] {
					t.Fatalf("value %d is %d; want %d", i, got, all[i])
				}
			}
			sought := rapid.Int64Range(-1, next+1).Draw(t, "sought")
			guess := rapid.IntRange(-1, r.tail+1).Draw(t, "guess")
			place := r.search(guess, func(v *int64) bool { return *v >= sought })
			if place < r.head || place > r.tail || place < r.tail && *r.at(place) < sought || place > r.head && *r.at(place - 1) >= sought {
				t.Fatalf("search for %d from %d of [%d, %d): %d", sought, guess, r.head, r.tail, place)
			}
			if chunks := len(r.chunks); chunks > len(all)/chunkSize+2 {
				t.Fatalf("%d chunks for %d values", chunks, len(all))
			}
		}
	})
}
