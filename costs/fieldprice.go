package costs

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// FieldPrice says that a field of the request is the amount of a call in units
// or another measure, or that the amount follows from it: Plus, and Times for
// each part of Each, or by steps.
type FieldPrice struct {
	by     requestField
	others []string // further paths of the body; the first that is there counts
	count  string   // number, as written; items of a list; or tokens of a text
	area   []string // the query parameters of a box, whose area is the number; nil for a field
	steps  []step   // rising; nil for a multiple

	Or          int64 // the number of a request without the field
	Least, Most int64 // between which the upstream reads the number; Most is 0 if there is no bound
	Each        int64
	Times, Plus int64
}

// step is the price of numbers of at most upTo.
type step struct{ upTo, units int64 }

const (
	countItems = "items"
	countText  = "text"
	maxPaths   = 8 // of one amount
)

// placesOfPrice are the keys of which a price by a field has one at least.
var placesOfPrice = []string{"query", "header", "body", "area", "or"}

// readFieldPrice reads {query: limit, or: 20, most: 1000, each: 100}.
func readFieldPrice(n strictyaml.Node) *FieldPrice {
	p := &FieldPrice{Each: 1, Times: 1}
	before := n.Mistakes()
	if n.Has("area") {
		n.Fields(p.fields()[len(p.by.fields()):]...)
	} else {
		p.by.readWith(n, p.fields())
	}
	if p.Most > 0 && p.Least > p.Most {
		n.Mistake("least %d is more than most %d: lower it", p.Least, p.Most)
	}
	for _, key := range []string{"each", "times", "plus"} {
		if p.steps != nil && n.Has(key) {
			n.Mistake("%s beside steps, which are the whole price: remove one", key)
		}
	}
	if n.Mistakes() > before {
		return nil
	}
	return p
}

// readUnits reads the units of a call, or 0 after a mistake. If they depend on
// the request, they are those of one that does not say.
func (d *document) readUnits(n strictyaml.Node, method string) quota.Units {
	if n.Kind() != strictyaml.Map {
		return quota.Units(n.Int(1, int64(quota.MaxUnits)))
	}
	p := readFieldPrice(n)
	if p == nil {
		return 0
	}
	d.site.fieldPrices[method] = p
	return max(p.price(p.Or), 1)
}

func (p *FieldPrice) fields() []strictyaml.Field {
	number := func(into *int64, least int64) func(strictyaml.Node) {
		return func(n strictyaml.Node) { *into = n.Int(least, int64(quota.MaxUnits)) }
	}
	places := p.by.fields()
	for i, field := range places {
		if field.Key == "body" {
			places[i].Read = p.readPaths
		}
	}
	return append(places, []strictyaml.Field{
		{Key: "or", Missing: "or: 20, what the upstream takes if the request does not say", Read: number(&p.Or, 0)},
		{Key: "count", Read: func(n strictyaml.Node) {
			p.count = n.OneOf("count",
				[]string{countItems, "number", countText})
		}},
		{Key: "least", Read: number(&p.Least, 0)},
		{Key: "most", Read: number(&p.Most, 1)},
		{Key: "each", Read: number(&p.Each, 1)},
		{Key: "times", Read: number(&p.Times, 1)},
		{Key: "plus", Read: number(&p.Plus, 0)},
		{Key: "area", Read: p.readArea},
		{Key: "steps", Read: p.readSteps},
	}...)
}

// readPaths reads max_tokens, or [max_completion_tokens, max_tokens].
func (p *FieldPrice) readPaths(n strictyaml.Node) {
	if n.Kind() != strictyaml.List {
		p.by.readAs("body")(n)
		return
	}
	i := 0
	n.Items(func(n strictyaml.Node) {
		if i++; i == 1 {
			p.by.readAs("body")(n)
		} else {
			p.others = append(p.others, n.Text(maxText))
		}
	})
	if i == 0 || i > maxPaths {
		n.Mistake("%d fields: write 1 to %d", i, maxPaths)
	}
}

// readArea reads the parameters of a box: [lamin, lomin, lamax, lomax].
func (p *FieldPrice) readArea(n strictyaml.Node) {
	n.Items(func(n strictyaml.Node) { p.area = append(p.area, n.Text(maxText)) })
	if n.Kind() == strictyaml.List && len(p.area) != 4 {
		n.Mistake("an area of %d parameters: write the four of two corners, [lamin, lomin, lamax, lomax]", len(p.area))
	}
}

// readSteps reads {25: 1, 100: 2, more: 4}.
func (p *FieldPrice) readSteps(n strictyaml.Node) {
	hasMore := false
	n.Entries(func(key, value strictyaml.Node) {
		s := step{upTo: math.MaxInt64, units: value.Int(1, int64(quota.MaxUnits))}
		if key.Kind() == strictyaml.Integer {
			s.upTo = key.Int(0, int64(quota.MaxUnits))
		} else if key.OneOf("step", []string{"more"}, "a number") != "" {
			hasMore = true
		}
		if i := len(p.steps) - 1; i >= 0 && p.steps[i].upTo >= s.upTo {
			key.Mistake("a step that is not above the one before: write the lower first")
		}
		p.steps = append(p.steps, s)
	})
	if n.Kind() == strictyaml.Map && !hasMore {
		n.Mistake("no price above the last step: write more: UNITS last")
	}
}

// String describes the price: 1 + 2 for each item of query include.
func (p *FieldPrice) String() string {
	text := strings.Join(append([]string{p.by.String()}, p.others...), ", ")
	if p.area != nil {
		text = "area of " + strings.Join(p.area, ", ")
	}
	switch p.count {
	case countItems:
		text = "items of " + text
	case countText:
		text = "tokens of " + text
	}
	if p.steps != nil {
		var steps []string
		for _, s := range p.steps {
			upTo := "more"
			if s.upTo < math.MaxInt64 {
				upTo = strconv.FormatInt(s.upTo, 10)
			}
			steps = append(steps, fmt.Sprintf("%s: %d", upTo, s.units))
		}
		return text + " by steps, " + strings.Join(steps, ", ")
	}
	if p.Each > 1 {
		text += fmt.Sprintf(" / %d", p.Each)
	}
	if p.Times > 1 {
		text = fmt.Sprintf("%d * %s", p.Times, text)
	}
	if p.Plus > 0 {
		text = fmt.Sprintf("%d + %s", p.Plus, text)
	}
	return text
}

// units returns the price of a request, at least 1, or why it is not certain.
func (p *FieldPrice) units(req *http.Request) (units quota.Units, reason string) {
	amount, reason := p.amount(req)
	if reason != "" {
		return 0, reason
	}
	return max(amount, 1), ""
}

// amount returns what a request costs, or why it is not certain.
func (p *FieldPrice) amount(req *http.Request) (amount quota.Units, reason string) {
	values, reason := p.values(req)
	isRead := reason == ""
	number := int64(-1)
	for _, value := range values {
		n, ok := p.number(value)
		isRead = isRead && ok
		if p.count == countItems {
			number = max(number, 0) + n
		} else {
			number = max(number, n) // parsers differ in which one they use
		}
	}
	switch {
	case isRead && len(values) == 0:
		number = p.Or
	case !isRead && p.Most > 0:
		number = p.Most
	case reason != "":
		return 0, reason
	case !isRead:
		return 0, "its " + p.String() + " is not a number of 0 or more; write one, or most: NUMBER in its cost"
	}
	return p.price(number), ""
}

// values returns the values of the field, or the area of the box.
func (p *FieldPrice) values(req *http.Request) (values []any, reason string) {
	if p.area == nil {
		values, reason = p.by.values(req)
		for i := 0; i < len(p.others) && len(values) == 0 && reason == ""; i++ {
			values, reason = (&requestField{"body", p.others[i]}).values(req)
		}
		return values, reason
	}
	var corners []float64
	for _, name := range p.area {
		text, found, reason := (&requestField{"query", name}).text(req)
		corner, err := strconv.ParseFloat(text, 64)
		isNumber := cornerForm.MatchString(text) && err == nil
		switch {
		case reason != "":
			return nil, reason
		case !found:
			return nil, "" // without a whole box, the upstream takes everything
		case !isNumber:
			return nil, "its " + name + " is not a number; write one"
		}
		corners = append(corners, corner)
	}
	area := math.Abs((corners[2] - corners[0]) * (corners[3] - corners[1]))
	return []any{strconv.FormatFloat(math.Ceil(area-1e-9), 'f', 0, 64)}, ""
}

// cornerForm is a coordinate that every server reads alike.
var cornerForm = regexp.MustCompile(`^-?[0-9]{1,9}(\.[0-9]{0,18})?$`)

// price returns the price of a number.
func (p *FieldPrice) price(number int64) quota.Units {
	number = max(number, p.Least)
	if p.Most > 0 {
		number = min(number, p.Most)
	}
	for _, s := range p.steps {
		if number <= s.upTo {
			return quota.Units(s.units)
		}
	}
	parts := number/p.Each + min(number%p.Each, 1)
	if parts > (int64(quota.MaxUnits)-p.Plus)/p.Times {
		return quota.MaxUnits // exceeds every sensible limit
	}
	return quota.Units(p.Plus + p.Times*parts)
}

// decimalForm is a number that every server reads alike.
var decimalForm = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]*)?([eE]\+?[0-9]{1,2})?$`)

// number returns the number that a value of the field is, rounded up, of how
// many items it is a list, or about how many tokens its texts are.
func (p *FieldPrice) number(value any) (n int64, ok bool) {
	if p.count == countText {
		return (textLength(value) + bytesPerToken - 1) / bytesPerToken, true
	}
	if list, isList := value.([]any); isList {
		return int64(len(list)), true
	}
	text, ok := textOf(value)
	if p.count == countItems {
		return int64(len(strings.FieldsFunc(text, func(r rune) bool { return r == ',' }))), ok
	}
	if !ok || !decimalForm.MatchString(text) {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	return int64(math.Ceil(min(number, float64(quota.MaxLimit)))), err == nil
}

// bytesPerToken is about how much text a token is.
const bytesPerToken = 4

// dataForm is an image or a file within a JSON text.
var dataForm = regexp.MustCompile(`^(data:[^,]{0,100},)?[A-Za-z0-9+/_-]{1000,}={0,2}$`)

// bytesOfData are about as many as the text that costs as much as an image.
const bytesOfData = 1600 * bytesPerToken

// textLength returns how many bytes the texts of a JSON value have.
func textLength(v any) (sum int64) {
	switch v := v.(type) {
	case string:
		if dataForm.MatchString(v) {
			return bytesOfData
		}
		return int64(len(v))
	case []any:
		for _, item := range v {
			sum += textLength(item)
		}
	case map[string]any:
		for _, item := range v {
			sum += textLength(item)
		}
	}
	return sum
}
