package cmdline

import (
	"runtime"
	"strings"
)

// Quote quotes a word for a shell, if necessary.
func Quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
	switch {
	case strings.Trim(word, plain) == "":
		return word
	case runtime.GOOS == "windows": // cmd knows no other quotes
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
