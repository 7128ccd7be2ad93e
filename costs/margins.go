package costs

import (
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// MarginNote says which budgets have a short window with the margin of
// ArrivalMargin, which costs.yaml need not say, or "".
func (t *Table) MarginNote() string {
	var names []string
	for _, b := range t.Budgets() {
		w := b.Window
		if margin := w.Margin(); w.Kind() == engine.Sliding && margin > 0 && margin == w.ArrivalMargin() {
			names = append(names, fmt.Sprintf("%s (%s) %s", human.Name(b.Name), w, human.Exactly(margin)))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "short windows return their units later, since some calls take longer to arrive than others: " +
		strings.Join(names, ", ") +
		"; margin in their windows changes that"
}
