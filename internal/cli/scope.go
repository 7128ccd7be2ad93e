package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// Accounts returns the account that is named, or all of them.
func Accounts(table *costs.Table, account string) ([]string, error) {
	known := table.Accounts()
	switch {
	case account == "":
		return known, nil
	case slices.Contains(known, account):
		return []string{account}, nil
	}
	return nil, &Error{fmt.Errorf("no account %q in costs.yaml; %s", account, strictyaml.Advice(account, known))}
}

// Scope returns the account and the budget that a command line names; "-", or
// no budget beside an account, is the whole account, whose name is then "".
func Scope(table *costs.Table, args []string, account string) (string, string, error) {
	known, err := Accounts(table, account)
	if err != nil {
		return "", "", err
	}
	if len(args) == 0 && account == "" {
		return "", "", &Error{errors.New("name a budget, or with --account a whole account")}
	}
	if len(args) == 0 || args[0] == "-" {
		if account == "" && len(known) > 1 {
			return "", "", &Error{fmt.Errorf("costs.yaml has several accounts; name one with --account: %s",
				strings.Join(known, ", "))}
		}
		return cmp.Or(account, known[0]), "", nil
	}
	budget, err := Budget(table, args[0], account)
	if err != nil && account == "" && slices.Contains(known, args[0]) {
		err = &Error{fmt.Errorf("%w, or --account %s", err, args[0])}
	}
	return budget.Account, budget.Name, err
}

// Budget returns the budget of that name, in any account or in one.
func Budget(table *costs.Table, name, account string) (quota.Budget, error) {
	var found []quota.Budget
	var names []string
	for _, b := range table.Budgets() {
		if account != "" && b.Account != account {
			continue
		}
		names = append(names, b.Name)
		if b.Name == name {
			found = append(found, b)
		}
	}
	switch {
	case len(found) == 0:
		return quota.Budget{}, &Error{fmt.Errorf("no budget %q in costs.yaml; %s", name,
			strictyaml.Advice(name, names))}
	case len(found) > 1:
		return quota.Budget{}, &Error{fmt.Errorf("budget %q is in several accounts; name one with --account", name)}
	}
	return found[0], nil
}

// Call returns the call of the method that a command line names. A method
// without a cost in costs.yaml is not a mistake of the command line.
func Call(table *costs.Table, upstream, method string) (quota.Call, error) {
	call, err := table.Call(upstream, method)
	if errors.Is(err, costs.ErrUnknown) || errors.Is(err, costs.ErrManyUpstreams) {
		err = &Error{err}
	}
	return call, err
}
