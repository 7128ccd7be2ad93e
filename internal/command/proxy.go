package command

import (
	"slices"
	"strings"
)

// WithoutProxy returns an environment in which HTTP clients reach the gateway
// directly although they use a proxy, which would get the token.
func WithoutProxy(env []string) []string {
	if !slices.ContainsFunc(env, func(v string) bool { return strings.Contains(strings.ToLower(v), "_proxy=") }) {
		return env
	}
	except := "127.0.0.1"
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		if strings.EqualFold(name, "NO_PROXY") && value != "" {
			except = value
			if value != "*" { // which curl and Python know only alone
				except += ",127.0.0.1"
			}
		}
	}
	return append(env, "NO_PROXY="+except, "no_proxy="+except)
}
