package decide

import "strings"

// Fold returns what an account's name shares with all that look like it, see
// quota.CheckLookAlike. It is part of stored names.
func Fold(account string) string {
	return strings.ToLower(strings.ToUpper(strings.TrimSpace(account)))
}
