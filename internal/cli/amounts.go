package cli

import (
	"encoding/json"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/internal/gateway"
)

// DefineAmounts defines --amount, which may be repeated.
func DefineAmounts(flags *pflag.FlagSet, amounts *map[string]string, usage string) {
	flags.StringToStringVar(amounts, "amount", nil, usage+", such as input_tokens=900; may be repeated")
}

// AmountsOf returns the amounts that --amount gives.
func AmountsOf(flags map[string]string) gateway.Amounts {
	amounts := gateway.Amounts{}
	for name, text := range flags {
		amounts[name] = json.Number(text)
	}
	return amounts
}
