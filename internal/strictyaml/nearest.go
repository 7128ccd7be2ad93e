package strictyaml

import "strings"

// Nearest returns the word that s is probably a typo of, or "". At most a third
// of the word's letters, and at most three, may be different, missing, added or
// swapped. Case is ignored.
func Nearest(s string, words []string) string {
	if len(s) > 100 {
		return ""
	}
	best, least := "", 4
	for _, word := range words {
		if d := distance(strings.ToLower(s), strings.ToLower(word), least); d < least && d <= max(1, len(word)/3) {
			best, least = word, d
		}
	}
	return best
}

// isSwapped reports whether b has the two letters of a in the other order.
func isSwapped(a, b string) bool { return a[0] == b[1] && a[1] == b[0] }

// distance counts the edits from a to b: insertions, deletions, replacements
// and swaps of neighbours (optimal string alignment), in bytes. It may stop
// at most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && isSwapped(a[i-2:i], b[j-2:j]) {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		spare := before
		before, last = last, row
		row = spare
	}
	return last[len(b)]
}
