package cli

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/internal/gateway"
)

// ReadQuery reads parameters that are named like flags, each at most once. A
// switch may have no value.
func ReadQuery(query url.Values, define func(*pflag.FlagSet)) (*pflag.FlagSet, error) {
	flags := pflag.NewFlagSet("query", pflag.ContinueOnError)
	define(flags)
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if err := gateway.CheckQuery(query, known, "this document has none"); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := cmp.Or(query.Get(name), flags.Lookup(name).NoOptDefVal)
		if err := flags.Set(name, value); err != nil {
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
