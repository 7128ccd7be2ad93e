package feedback

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/ration-dev/ration/quota"
)

// Rule says how to read some of an upstream's answers. Rules are tried in
// order. Each one that matches adds what it says; of two that say the same
// thing, the earlier one counts. Rules are plain data: costs.yaml has them
// under answers, and a dialect is a file of them.
type Rule struct {
	About string        `json:"about,omitempty"` // for people, as explain shows it
	When  RuleCondition `json:"when"`
	Stop  *Stop         `json:"stop,omitempty"`
	Cost  RuleValues    `json:"cost,omitempty"` // what the call really cost, in units; added up
	// Measures are what it cost in named measures. Those of a dialect that are
	// not among Options.Measures are ignored; otherwise they replace its Cost.
	Measures map[quota.Measure]RuleValues `json:"measures,omitempty"`

	Limits Limits `json:"limits,omitempty"`
	Counts *bool  `json:"counts,omitempty"` // false: the call did not count in any budget

	At string `json:"-"` // where it is written: "costs.yaml:7", "github 3"
}

// RuleCondition selects answers. All conditions that are set must hold; one
// that lists several words holds if one of them matches. RuleWords ignore case,
// and * in them stands for any text.
type RuleCondition struct {
	Status RuleWords            `json:"status,omitempty"` // 429, 4xx or 400-499
	Method RuleWords            `json:"method,omitempty"` // the call's, as costs.yaml names it
	Path   RuleWords            `json:"path,omitempty"`   // the path of the request's URL
	Header map[string]RuleWords `json:"header,omitempty"`
	Body   map[string]RuleWords `json:"body,omitempty"` // by the path of a JSON field
	Text   RuleWords            `json:"text,omitempty"` // what a text of the body contains
}

// Kinds of stop.
const (
	Spent   = "spent"   // a limit is spent, and returns with time
	Busy    = "busy"    // too much at once: a short pause helps
	Blocked = "blocked" // waiting does not help
	Failed  = "failed"  // the upstream failed: the same call may succeed at once
	None    = "none"    // the answer is about something else; only a Retry-After counts
)

// Stop says that the answer asks for a pause.
type Stop struct {
	Kind    string     `json:"kind,omitempty"`    // Spent if empty
	Scope   string     `json:"scope,omitempty"`   // account, method or key; empty: the budget that matches
	Budgets RuleWords  `json:"budgets,omitempty"` // names; the first that covers the call is stopped
	Window  string     `json:"window,omitempty"`  // which window is spent: day, or 15m
	Name    RuleValues `json:"name,omitempty"`    // the upstream's name for the limit
	Word    RuleValues `json:"word,omitempty"`    // what is wrong in a word, for the reason
	Until   RuleUntils `json:"until,omitempty"`   // the first that can be read counts
}

// RuleValue is a place of an answer. Of several alternatives the first that is
// there counts.
type RuleValue struct {
	Header RuleWords `json:"header,omitempty"`
	Body   RuleWords `json:"body,omitempty"`    // paths of JSON fields: error.details.*.retryDelay
	Path   string    `json:"path,omitempty"`    // in a header that holds JSON
	Text   RuleWords `json:"text,omitempty"`    // the time, or the word in quotes, after these words
	Item   int       `json:"item,omitempty"`    // of a list with commas, from 1
	In     string    `json:"in,omitempty"`      // the unit of a number: seconds, ms, minutes, per second
	Is     string    `json:"is,omitempty"`      // a fixed text
	LastOf string    `json:"last_of,omitempty"` // only what follows the last of these: "/"

	Names map[string]string `json:"names,omitempty"` // other names for values, by these in lower case
	Known bool              `json:"known,omitempty"` // only values with another name count
}

// RuleUntil is when a stop ends: a time or a wait that the answer holds, a
// moment, or a pause.
type RuleUntil struct {
	RuleValue
	Day    string `json:"day,omitempty"`    // the end of the day in this zone
	Month  string `json:"month,omitempty"`  // the end of the month
	Every  string `json:"every,omitempty"`  // the next multiple of this duration on the clock
	Pause  string `json:"pause,omitempty"`  // a duration
	Window string `json:"window,omitempty"` // the end of such a window, as costs.yaml has it
	Double bool   `json:"double,omitempty"` // the pause doubles as long as refusals go on
}

// Limit is a limit whose state an answer may hold in any status.
type Limit struct {
	Budget string     `json:"budget,omitempty"` // a budget's name; empty: the one that matches
	Name   *RuleValue `json:"name,omitempty"`   // the upstream's name
	Window string     `json:"window,omitempty"`
	Count  string     `json:"count,omitempty"` // the measure: calls, units, input_tokens
	Leaky  bool       `json:"leaky,omitempty"` // a bucket that refills steadily

	Limit  *RuleValue `json:"limit,omitempty"`
	Left   *RuleValue `json:"left,omitempty"`
	Used   *RuleValue `json:"used,omitempty"`
	Pair   *RuleValue `json:"pair,omitempty"` // used/limit
	Until  *RuleValue `json:"until,omitempty"`
	Rate   *RuleValue `json:"rate,omitempty"` // how much returns in a second
	Needed *RuleValue `json:"needed,omitempty"`
}

// RuleWords, RuleValues, RuleUntils and Limits may be one or a list.
type (
	RuleWords  []string
	RuleValues []RuleValue
	RuleUntils []RuleUntil
	Limits     []Limit
)

// UnmarshalJSON reads a text, a number, a boolean or a list of them.
func (w *RuleWords) UnmarshalJSON(data []byte) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		*w = append(*w, fmt.Sprint(item))
	}
	return nil
}

// UnmarshalJSON reads one or a list.
func (v *RuleValues) UnmarshalJSON(data []byte) error { return oneOrMore(data, (*[]RuleValue)(v)) }

// UnmarshalJSON reads one or a list.
func (v *RuleUntils) UnmarshalJSON(data []byte) error { return oneOrMore(data, (*[]RuleUntil)(v)) }

// UnmarshalJSON reads one or a list.
func (v *Limits) UnmarshalJSON(data []byte) error { return oneOrMore(data, (*[]Limit)(v)) }

func oneOrMore[T any](data []byte, into *[]T) error {
	if !bytes.HasPrefix(data, []byte("[")) {
		data = append(append([]byte("["), data...), ']')
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
