package inspect

import (
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
)

const prefix = "RATION_" // of the variables that ration reads

// variables are what follows prefix in their names.
var variables = []string{
	"CONFIG", "ENDPOINT", "HOST", "JOB", "JOURNAL", "KEY", "LANE", "LEDGER", "REGION", "STATE", "TOKEN", "TRUST_GROUP",
	"TRUST_OWNER", "URL",
	"REDIS_PASSWORD", "REDIS_PASSWORD_FILE", "REDIS_SENTINEL_PASSWORD", "REDIS_SENTINEL_PASSWORD_FILE",
	"TO_REDIS_PASSWORD", "TO_REDIS_PASSWORD_FILE", "TO_REDIS_SENTINEL_PASSWORD", "TO_REDIS_SENTINEL_PASSWORD_FILE",
}

// CheckEnvironment warns of variables that are probably typos of ration's. It
// shows no value: that may be a password.
func (c *Checkup) CheckEnvironment(environ []string) {
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
			continue
		}
		near := strictyaml.Nearest(name[len(prefix):], variables)
		if isKnown := slices.Contains(variables, strings.TrimPrefix(name, prefix)); near != "" && !isKnown {
			c.Add(Warning, "write "+prefix+near+", if that is meant",
				"the environment has %s, which ration does not read", human.Name(name))
		}
	}
}
