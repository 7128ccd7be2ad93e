package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// reading is what the upstream's console says of a budget, as it was written.
type reading struct{ budget, used string }

// Readings reads BUDGET with --used, which is empty if it was not given, or
// BUDGET=N once or more. It returns the account of the budgets, which must be
// one. N is a number as in costs.yaml: dollars for usd.
func Readings(table *costs.Table, args []string, used, account string) (of string, readings []usage.Reading,
	err error) {
	written, err := readingsOf(args, used)
	if err != nil {
		return "", nil, err
	}
	for i, r := range written {
		budget, err := Budget(table, r.budget, account)
		if _, _, isReading := strings.Cut(r.budget, "="); err != nil && isReading {
			return "", nil, &Error{fmt.Errorf("%w; write BUDGET --used N or BUDGET=N, not both", err)}
		}
		if err != nil {
			return "", nil, err
		}
		if i > 0 && budget.Account != of {
			return "", nil, &Error{fmt.Errorf("%s and %s are of different accounts; reconcile one account at a time",
				human.Name(written[0].budget), human.Name(r.budget))}
		}
		n, err := amount(budget.Measure, r.used)
		if err != nil {
			return "", nil, &Error{fmt.Errorf("%s: %w", human.Name(r.budget+"="+r.used), err)}
		}
		of = budget.Account
		readings = append(readings,
			usage.Reading{Budget: r.budget, Used: n, Upstream: table.UpstreamLimit(of, r.budget)})
	}
	return of, readings, nil
}

func readingsOf(args []string, used string) (written []reading, err error) {
	if used != "" {
		if len(args) != 1 {
			return nil, &Error{errors.New("--used is for one budget; write BUDGET=N for each of several")}
		}
		return []reading{{args[0], used}}, nil
	}
	for _, arg := range args {
		cut := strings.LastIndexByte(arg, '=')
		if cut < 0 {
			return nil,
				&Error{fmt.Errorf("%s: give --used: what the upstream's console says was used, or write %s=N for "+
					"each of several budgets", human.Name(arg), human.Name(arg))}
		}
		r := reading{arg[:cut], arg[cut+1:]}
		if slices.ContainsFunc(written, func(other reading) bool { return other.budget == r.budget }) {
			return nil, &Error{fmt.Errorf("%s is given twice; give each budget once", human.Name(r.budget))}
		}
		written = append(written, r)
	}
	return written, nil
}

// amount reads an amount of a measure: a whole number, or dollars.
func amount(m quota.Measure, text string) (quota.Units, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	ok := err == nil && n >= 0
	if m == quota.USD {
		n, ok = strictyaml.ParseMillionths(text)
	}
	if !ok || quota.Units(n) > quota.MaxLimit {
		return 0, fmt.Errorf("write a number of %s from 0 to %s", m, m.Number(quota.MaxLimit))
	}
	return quota.Units(n), nil
}
