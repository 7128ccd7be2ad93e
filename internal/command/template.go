package command

import (
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// Values are what the placeholders of an argument stand for.
type Values struct {
	Region string    // {region}
	Tick   time.Time // {tick}, in RFC 3339 and UTC
	Zone   string    // {zone}, the IANA name of the schedule's time zone
}

var placeholders = []string{"region", "tick", "zone"}

func (v *Values) value(name string) (value string, ok bool) {
	switch name {
	case "region":
		return v.Region, true
	case "tick":
		return v.Tick.UTC().Format(time.RFC3339), true
	case "zone":
		return v.Zone, true
	}
	return "", false
}

// Expand replaces the placeholders {region}, {tick} and {zone} in an argument.
// {{ and }} stand for one brace. Any other brace is an error.
func Expand(arg string, v *Values) (string, error) {
	var out strings.Builder
	for {
		at := strings.IndexAny(arg, "{}")
		if at < 0 {
			out.WriteString(arg)
			return out.String(), nil
		}
		out.WriteString(arg[:at])
		brace, rest := arg[at:at+1], arg[at+1:]
		if doubled, ok := strings.CutPrefix(rest, brace); ok {
			out.WriteString(brace)
			arg = doubled
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if brace == "}" || !closed {
			return "", fmt.Errorf("a single %q: write {region}, {tick} or {zone}, or %s for the brace itself", brace,
				brace+brace)
		}
		value, ok := v.value(name)
		if !ok {
			return "", fmt.Errorf("unknown placeholder %q: %s", "{"+name+"}", adviseName(name))
		}
		out.WriteString(value)
		arg = after
	}
}

func adviseName(name string) string {
	if near := strictyaml.Nearest(name, placeholders); near != "" {
		return "write {" + near + "}"
	}
	return "write {region}, {tick} or {zone}, or {{ and }} for the braces themselves"
}
