package human

import (
	"strings"
)

// ClearCommand returns the command that lifts the cooldown of a budget or, if
// budget is empty, of its whole account, or that of a key. It names the account
// of a budget too, since another account may have a budget of that name.
func ClearCommand(account, budget, key string) string {
	const command = "ration cooldown clear "
	flag := "--account " + ShellQuote(account)
	if key != "" {
		flag += " --key " + ShellQuote(key)
	}
	switch {
	case budget == "":
		return command + flag
	case strings.HasPrefix(budget, "-"): // else it would be a flag
		return command + flag + " -- " + ShellQuote(budget)
	}
	return command + ShellQuote(budget) + " " + flag
}
