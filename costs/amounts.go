package costs

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"slices"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// measure sets what the call costs in named measures, by its request. With a
// nil request, or one that does not say it, the amounts are those of requests
// without the field.
func (s *site) measure(call *quota.Call, req *http.Request) {
	amounts := s.measured[call.Method]
	if len(amounts) == 0 {
		return
	}
	call.Measures = make(map[quota.Measure]quota.Units, len(amounts))
	for m, a := range amounts {
		if len(a.Per) > 0 {
			continue
		}
		if call.Measures[m] = a.Fixed; a.By == nil {
			continue
		}
		call.Lease = s.lease
		if req == nil {
			continue
		}
		if n, reason := a.By.amount(req); reason == "" {
			call.Measures[m] = n
		}
	}
	s.setPrices(call.Method, call.Measures, nil)
}

// setPrices sets the amounts that are the price of others. fixed are measures
// that stay as they are.
func (s *site) setPrices(method string, amounts map[quota.Measure]quota.Units, fixed map[quota.Measure]quota.Units) {
	for m, a := range s.measured[method] {
		if _, isFixed := fixed[m]; len(a.Per) > 0 && !isFixed {
			amounts[m] = a.price(m, amounts)
		}
	}
}

// price returns the price of amounts, rounded up.
func (a *Amount) price(m quota.Measure, amounts map[quota.Measure]quota.Units) quota.Units {
	var high, low uint64
	for of, price := range a.Per {
		h, l := bits.Mul64(uint64(amounts[of]), uint64(price))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	each := uint64(a.Each)
	if m != quota.USD { // which counts millionths itself
		each *= 1_000_000
	}
	if high >= each {
		return quota.MaxLimit
	}
	sum, rest := bits.Div64(high, low, each)
	if rest > 0 {
		sum++
	}
	return quota.Units(min(sum, uint64(quota.MaxLimit)))
}

// Settled returns measures with the prices that follow from them, such as USD
// from the tokens that an answer names. What an answer does not name is as the
// call had it.
func (u *Upstream) Settled(call quota.Call, measures map[quota.Measure]quota.Units) map[quota.Measure]quota.Units {
	amounts := u.site.measured[call.Method]
	if len(measures) == 0 || len(amounts) == 0 {
		return measures
	}
	known := map[quota.Measure]quota.Units{}
	for m := range amounts {
		known[m] = amounts[m].Fixed
	}
	maps.Copy(known, call.Measures)
	maps.Copy(known, measures)
	u.site.setPrices(call.Method, known, measures)
	settled := maps.Clone(measures)
	for m, a := range amounts {
		changes := func(of quota.Measure) bool { _, ok := measures[of]; return ok }
		if slices.ContainsFunc(slices.Collect(maps.Keys(a.Per)), changes) {
			settled[m] = known[m]
		}
	}
	return settled
}

// likenessOf says how likely the upstream has priced a call: of several that
// have the method, the one whose measures the call has.
func (u *Upstream) likenessOf(call quota.Call) int {
	amounts := u.site.measured[call.Method]
	for m := range amounts {
		if _, isPriced := call.Measures[m]; !isPriced {
			return 1
		}
	}
	return 2 * len(amounts)
}

// ParseAmounts returns amounts of named measures, which are numbers as in
// costs.yaml: whole, or dollars for USD. The measures are those of the account;
// the error matches quota.ErrBadCall. Prices that follow from these amounts are
// among the result; the others of the call stay as they are.
func (t *Table) ParseAmounts(call quota.Call, amounts map[string]json.Number) (map[quota.Measure]quota.Units, error) {
	if len(amounts) == 0 {
		return nil, nil
	}
	var of *Upstream
	likeness := -1
	known := map[string]bool{}
	for _, u := range t.upstreamsOf(call.Account) {
		if n := u.likenessOf(call); n > likeness {
			of, likeness = u, n
		}
		for _, m := range u.Measures {
			known[string(m)] = true
		}
	}
	parsed := map[quota.Measure]quota.Units{}
	for name, text := range amounts {
		if !known[name] {
			advice := "costs.yaml has no measures; write measures: [" + name + "]"
			if len(known) > 0 {
				advice = strictyaml.Advice(name, slices.Sorted(maps.Keys(known)))
			}
			return nil, fmt.Errorf("%w: unknown measure %q: %s", quota.ErrBadCall, name, advice)
		}
		m := quota.Measure(name)
		n, ok := strictyaml.ParseMillionths(string(text))
		isWhole := m == quota.USD || n%1_000_000 == 0
		if m != quota.USD {
			n /= 1_000_000
		}
		if !ok || !isWhole || quota.Units(n) > quota.MaxLimit {
			return nil, fmt.Errorf("%w: %s of %s; give a number such as 900, or for usd dollars such as 0.25",
				quota.ErrBadCall, text, name)
		}
		parsed[m] = quota.Units(n)
	}
	return of.Settled(call, parsed), nil
}
