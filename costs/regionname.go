package costs

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// countryCode matches the names of regions of an upstream with an api.
var countryCode = regexp.MustCompile(`^[A-Z]{2}$`)

// readRegion reads the name of a region as in regions.yaml. For an upstream
// with an api it is a country code: any other name would cover nothing, without
// an error.
func (d *document) readRegion(n strictyaml.Node) string {
	name := n.Text(quota.MaxLabel)
	code := isoCodes[name]
	switch {
	case name == "":
	case d.API == "":
		if err := CheckRegionName(name); err != nil {
			n.Mistake("%v", err)
			return ""
		}
	case !countryCode.MatchString(name):
		n.Mistake("unknown region %q: write its two capital letters, such as IN", name)
		return ""
	case code != "":
		n.Mistake("unknown region %q: write %s", name, code)
		return ""
	}
	return name
}

var regionName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckRegionName returns an error unless name is a valid name of a region
// without a YouTube step: at most 64 letters, digits, dots, underscores and
// hyphens, the first of them a letter or digit.
func CheckRegionName(name string) error {
	if !regionName.MatchString(name) {
		return fmt.Errorf("malformed region %q: write at most 64 letters, digits, dots, underscores and hyphens, a "+
			"letter or digit first, such as emea", name)
	}
	return nil
}

// isoCodes maps common country codes that are not in ISO 3166-1 to those
// that are.
var isoCodes = map[string]string{"UK": "GB", "EL": "GR"}

// HasFreeRegions reports whether some upstream has no api, so that regions are
// not only countries.
func (t *Table) HasFreeRegions() bool {
	return slices.ContainsFunc(t.upstreams, func(u *Upstream) bool { return u.API == "" })
}
