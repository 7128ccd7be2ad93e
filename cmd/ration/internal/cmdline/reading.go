package cmdline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/reconcile"
)

// Readings reads BUDGET with --used, or BUDGET=N once or more.
func Readings(args []string, used int64, given bool) ([]reconcile.Reading, error) {
	if given {
		if used < 0 || quota.Units(used) > quota.MaxLimit {
			return nil, &Error{fmt.Errorf("--used %d: give 0 to %d", used, quota.MaxLimit)}
		}
		if len(args) != 1 {
			return nil, &Error{errors.New("--used is for one budget; write BUDGET=N for each of several")}
		}
		return []reconcile.Reading{{Budget: args[0], Used: quota.Units(used)}}, nil
	}
	var readings []reconcile.Reading
	for _, arg := range args {
		cut := strings.LastIndexByte(arg, '=')
		if cut < 0 {
			return nil, &Error{fmt.Errorf("%s: give --used: what the upstream's console says was used, or write %s=N for each of several budgets", human.Name(arg), human.Name(arg))}
		}
		n, err := strconv.ParseInt(arg[cut+1:], 10, 64)
		if err != nil || n < 0 || quota.Units(n) > quota.MaxLimit {
			return nil, &Error{fmt.Errorf("%s: write BUDGET=N, with N from 0 to %d", human.Name(arg), quota.MaxLimit)}
		}
		if slices.ContainsFunc(readings, func(r reconcile.Reading) bool { return r.Budget == arg[:cut] }) {
			return nil, &Error{fmt.Errorf("%s is given twice; give each budget once", human.Name(arg[:cut]))}
		}
		readings = append(readings, reconcile.Reading{Budget: arg[:cut], Used: quota.Units(n)})
	}
	return readings, nil
}

// AccountOf returns the account of the budgets that are read, which must
// be one.
func AccountOf(table *costs.Table, readings []reconcile.Reading, flag string) (account string, err error) {
	for i, r := range readings {
		budget, err := Budget(table, r.Budget, flag)
		if _, _, isReading := strings.Cut(r.Budget, "="); err != nil && isReading {
			return "", &Error{fmt.Errorf("%w; write BUDGET --used N or BUDGET=N, not both", err)}
		}
		if err != nil {
			return "", err
		}
		if i > 0 && budget.Account != account {
			return "", &Error{fmt.Errorf("%s and %s are of different accounts; reconcile one account at a time", human.Name(readings[0].Budget), human.Name(r.Budget))}
		}
		account = budget.Account
	}
	return account, nil
}
