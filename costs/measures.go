package costs

import (
	"maps"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// Amount is what a call of a method costs in a named measure: a fixed amount,
// one by a field of the request, or the price of other amounts.
type Amount struct {
	Fixed quota.Units // the amount, or the one of a request whose field cannot be read
	By    *FieldPrice // nil: Fixed, or Per

	Per  map[quota.Measure]quota.Units // millionths of the measure, for Each of these; of USD, dollars
	Each quota.Units                   // at least 1 with Per
}

const maxNamed = quota.MaxMeasures - 2 // units and calls are the others

// ofValue are the keys of a value of a rule in answers, which no measure is
// named like.
var ofValue = []string{"header", "body", "path", "text", "item", "in", "is", "last_of", "known", "names"}

// readMeasures reads the names of the measures that calls cost beside units and
// calls. Those of a file are added to its preset's.
func (d *document) readMeasures(n strictyaml.Node) {
	n.Items(func(n strictyaml.Node) {
		name := n.Text(quota.MaxLabel)
		isOther := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789_", r) }
		switch m := quota.Measure(name); {
		case name == "":
		case slices.Contains([]string{"units", "calls", "errors"}, name):
			n.Mistake("%s are always counted: remove it", name)
		case slices.Contains(ofValue, name):
			n.Mistake("%s is a word of answers: write another name, such as %s_count", name, name)
		case strings.ContainsFunc(name, isOther):
			n.Mistake("%q is not a measure: write lower case letters, digits and _, such as input_tokens", name)
		case !slices.Contains(d.Measures, m):
			d.Measures = append(d.Measures, m)
			if d.reading == nil {
				d.measuresAt[m] = n
			}
		}
	})
	if len(d.Measures) > maxNamed {
		n.Mistake("%d measures: write at most %d, those of a preset included", len(d.Measures), maxNamed)
	}
}

// measureNames returns the measures that a budget can count.
func (u *Upstream) measureNames() []string {
	return append([]string{"units", "calls", "errors"}, u.namedMeasures()...)
}

// namedMeasures returns the measures in which calls have a cost.
func (u *Upstream) namedMeasures() (names []string) {
	for _, m := range u.Measures {
		names = append(names, string(m))
	}
	return names
}

// CountsErrors reports whether a budget counts the answers that are errors.
func (u *Upstream) CountsErrors() bool {
	return slices.ContainsFunc(u.Budgets, func(b quota.Budget) bool { return b.Measure == quota.Errors })
}

// readAmount reads an amount of a measure: whole, or for USD in dollars.
func readAmount(n strictyaml.Node, m quota.Measure, least, most quota.Units) quota.Units {
	if m != quota.USD {
		return quota.Units(n.Int(int64(least), int64(most)))
	}
	before := n.Mistakes()
	amount := quota.Units(n.Decimal(int64(most)))
	if amount < least && n.Mistakes() == before {
		n.Mistake("an amount of 0 dollars: write more than 0")
	}
	return amount
}

// readMethodCost reads {input_tokens: {body: max_tokens, or: 800}, usd: …}:
// what a call of a method costs in each measure. Without units it costs 1.
func (d *document) readMethodCost(n strictyaml.Node, method string) (units quota.Units) {
	units = 1
	amounts := map[quota.Measure]Amount{}
	names := append([]string{"units"}, d.namedMeasures()...)
	n.Entries(func(key, value strictyaml.Node) {
		name := key.OneOf("measure", names, "or list it in measures")
		switch m := quota.Measure(name); {
		case name == "":
		case name == "units":
			units = d.readUnits(value, method)
		case value.Kind() == strictyaml.Map:
			amounts[m] = d.readComputed(value, m)
		default:
			amounts[m] = Amount{Fixed: readAmount(value, m, 0, quota.MaxLimit)}
		}
	})
	if n.IsEmpty() {
		n.Mistake("no amount: write one, such as {%s: 1}", names[len(names)-1])
	}
	for _, amount := range amounts {
		for m := range amount.Per {
			if other, ok := amounts[m]; !ok || len(other.Per) > 0 {
				n.Mistake("per names %s, of which %s has no amount: write %s: {body: max_tokens, or: 1000} beside it",
					m, method, m)
			}
		}
	}
	d.site.measured[method] = amounts
	return units
}

// readComputed reads {body: PATH, or: N} or {per: {input_tokens: 2.5}, each:
// N}.
func (d *document) readComputed(n strictyaml.Node, m quota.Measure) (a Amount) {
	switch {
	case n.Has("per"):
		a.Each = 1
		n.Fields(
			strictyaml.Field{Key: "per", Read: func(n strictyaml.Node) {
				a.Per = map[quota.Measure]quota.Units{}
				n.Entries(func(key, value strictyaml.Node) {
					if of := key.OneOf("measure", d.namedMeasures()); of != "" {
						a.Per[quota.Measure(of)] = quota.Units(value.Decimal(maxPrice))
					}
				})
			}},
			strictyaml.Field{Key: "each", Missing: "each: 1000000, for how many the price is",
				Read: func(n strictyaml.Node) { a.Each = max(1, quota.Units(n.Int(1, 1_000_000_000))) }},
		)
	case m == quota.USD:
		n.Mistake("dollars that a field says: write a number, or {per: {input_tokens: 2.5}, each: 1000000}")
	default:
		if a.By = readFieldPrice(n); a.By != nil {
			a.Fixed = a.By.price(a.By.Or)
		}
	}
	return a
}

// maxPrice is the highest price, in millionths.
const maxPrice = 1_000_000_000_000

// checkMeasures reports measures of the file that no cost has.
func (d *document) checkMeasures() {
	for _, m := range slices.Sorted(maps.Keys(d.measuresAt)) {
		isCost := false
		for _, amounts := range d.site.measured {
			_, has := amounts[m]
			isCost = isCost || has
		}
		if !isCost {
			d.measuresAt[m].Mistake("measure %s without a cost: write costs: {METHOD: {%s: 1}}, or remove it", m, m)
		}
	}
}

// checkMeasuresOfAccounts reports accounts with more measures than a ledger
// has.
func checkMeasuresOfAccounts(documents []*document) {
	ofAccount := map[string]map[quota.Measure]bool{}
	for _, d := range documents {
		known := ofAccount[d.Account]
		if known == nil {
			known = map[quota.Measure]bool{}
			ofAccount[d.Account] = known
		}
		before := len(known)
		for _, m := range d.Measures {
			known[m] = true
		}
		if d.CountsErrors() {
			known[quota.Errors] = true
		}
		isReported := before > maxNamed || len(d.Measures) > maxNamed
		if len(known) > maxNamed && !isReported {
			d.at["account"].Mistake("the documents of account %q have more than %d measures together, errors "+
				"included: remove some", d.Account, maxNamed)
		}
	}
}
