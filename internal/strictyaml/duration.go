package strictyaml

import (
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// Duration reads a duration from least to most, such as 30s, 1h30m, 24h or 7d,
// with human.ParseDuration. A number without a unit is a mistake: 24 may be
// meant as hours, or as seconds.
func (n Node) Duration(least, most time.Duration) time.Duration {
	text, _ := n.text()
	number := strings.Trim(n.describe(), `"`)
	_, noUnit := human.ParseDuration(number)
	if _, err := human.ParseSeconds(number); err == nil && noUnit != nil {
		n.Mistake("%s is %s, without a unit: write %[3]sh, %[3]sm or %[3]ss", n.name, n.describe(), number)
		return 0
	}
	return n.duration(text, human.ParseDuration, least, most)
}

// Seconds is like Duration, but a number without a unit counts seconds.
func (n Node) Seconds(least, most time.Duration) time.Duration {
	text, ok := n.text()
	if !ok && n.Kind() == Integer {
		text = firstToken(n.node).Value
	}
	return n.duration(text, human.ParseSeconds, least, most)
}

func (n Node) duration(text string, parse func(string) (time.Duration, error), least,
	most time.Duration) time.Duration {
	if value, err := parse(text); err == nil && value >= least && value <= most {
		return value
	}
	n.Mistake("%s is %s: write a duration from %s to %s%s", n.name, n.describe(), human.Exactly(least),
		human.Exactly(most), formatExamples(least, most))
	return 0
}

// formatExamples returns examples of durations from least to most.
func formatExamples(least, most time.Duration) string {
	var fit []string
	for _, d := range []time.Duration{24 * time.Hour, 10 * time.Minute, 30 * time.Second} {
		if d >= least && d <= most {
			fit = append(fit, human.Exactly(d))
		}
	}
	switch last := len(fit) - 1; last {
	case -1:
		return ""
	case 0:
		return ", such as " + fit[0]
	default:
		return ", such as " + strings.Join(fit[:last], ", ") + " or " + fit[last]
	}
}
