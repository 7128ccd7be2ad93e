package cli

import (
	"fmt"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// CallerError says where what is wrong with a caller was given: with a flag, or
// in the variable that is the flag's default. err begins with the flag's name.
func CallerError(err error, caller quota.Caller, getenv func(string) string) error {
	for flag, value := range map[string]string{"lane": caller.Lane, "job": caller.Job, "region": caller.Region} {
		variable := "RATION_" + strings.ToUpper(flag)
		if strings.HasPrefix(err.Error(), flag) && value == getenv(variable) {
			return &Error{fmt.Errorf("%s: %w", variable, err)}
		}
	}
	return &Error{fmt.Errorf("--%w", err)}
}
