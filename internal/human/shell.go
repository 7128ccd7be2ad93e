package human

import (
	"runtime"
	"strings"
)

// ShellQuote quotes a word for a shell, if necessary: for a POSIX shell or, on
// Windows, for cmd.
func ShellQuote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
	switch {
	case word != "" && strings.Trim(word, plain) == "":
		return word
	case runtime.GOOS == "windows": // cmd knows no other quotes
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
