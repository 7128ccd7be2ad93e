package plan

import (
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Name returns the name of a budget of the report for people, with its account
// if another account has a budget of that name.
func (r *Report) Name(b *quota.Budget) string {
	for i := range r.Budgets {
		if isNamesake(b, &r.Budgets[i].Budget) {
			return fullName(b)
		}
	}
	return human.Name(b.Name)
}

// Name is Report.Name for a replay.
func (r *ReplayReport) Name(b *quota.Budget) string {
	for i := range r.Budgets {
		if isNamesake(b, &r.Budgets[i].Budget) {
			return fullName(b)
		}
	}
	return human.Name(b.Name)
}

func isNamesake(b, other *quota.Budget) bool {
	return b.Name == other.Name && b.Account != other.Account
}

func fullName(b *quota.Budget) string { return human.Name(b.Name) + " of " + human.Name(b.Account) }
