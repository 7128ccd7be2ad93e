package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs/gateway"
	"github.com/ration-dev/ration/costs/strictyaml"
)

// ReadQuery reads parameters that are named like flags, each at most once. A
// switch may have no value.
func ReadQuery(query url.Values, define func(*pflag.FlagSet)) (*pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("query", pflag.ContinueOnError)
	define(flags)
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	for _, name := range slices.Sorted(maps.Keys(query)) {
		flag, values := flags.Lookup(name), query[name]
		switch {
		case flag == nil && len(known) == 0:
			return nil, &gateway.QueryError{Err: fmt.Errorf("unknown parameter %q; this document has none", name)}
		case flag == nil:
			return nil, &gateway.QueryError{Err: fmt.Errorf("unknown parameter %q: %s", name, strictyaml.Advice(name, known))}
		case len(values) > 1:
			return nil, &gateway.QueryError{Err: fmt.Errorf("%s is given %d times; give it once", name, len(values))}
		case values[0] == "" && flag.NoOptDefVal != "":
			values = []string{flag.NoOptDefVal}
		}
		if err := flags.Set(name, values[0]); err != nil {
			return nil, QueryError(cmp.Or(invalidValue(err), err))
		}
	}
	return flags, nil
}

// QueryError converts a command's usage error to that of a query. It returns
// other errors unchanged.
func QueryError(err error) error {
	if _, ok := errors.AsType[*Error](err); !ok {
		return err
	}
	return &gateway.QueryError{Err: errors.New(strings.ReplaceAll(err.Error(), "--", ""))}
}
