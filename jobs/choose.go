package jobs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// Choose returns the named regions, or all if names is empty.
func Choose(regions []Region, names []string) ([]Region, error) {
	if len(names) == 0 {
		return regions, nil
	}
	var chosen []Region
	var known []string
	for _, region := range regions {
		known = append(known, region.Name)
	}
	for _, name := range names {
		i := slices.IndexFunc(known, func(region string) bool { return strings.EqualFold(region, name) })
		if i < 0 {
			return nil, fmt.Errorf("no region %q in regions.yaml; %s", name, RegionAdvice(name, known))
		}
		if !slices.ContainsFunc(chosen, func(r Region) bool { return r.Name == known[i] }) {
			chosen = append(chosen, regions[i])
		}
	}
	return chosen, nil
}

// RegionAdvice is strictyaml.Advice for a region.
func RegionAdvice(name string, known []string) string {
	if strings.EqualFold(name, "UK") && slices.Contains(known, "GB") {
		return "write GB"
	}
	return strictyaml.Advice(name, known)
}
