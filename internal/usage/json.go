package usage

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// BudgetReport is a BudgetStatus for JSON. Times are in UTC and at most
// human.MaxUnix; no slice or map is nil.
type BudgetReport struct {
	Account        string      `json:"account"`
	Name           string      `json:"name"`
	Limit          quota.Units `json:"limit"` // that holds
	Used           quota.Units `json:"used"`
	Remaining      quota.Units `json:"remaining"`
	Window         string      `json:"window"`
	Measure        string      `json:"measure"`
	NextFreeAt     *time.Time  `json:"next_free_at"`
	NextFree       []Return    `json:"next_free"`
	CooldownUntil  *time.Time  `json:"cooldown_until"`
	CooldownReason *string     `json:"cooldown_reason"`
	Attribution
	// of what is used, in its measure: found missing by an operator
	Reconciled quota.Units `json:"reconciled_units"`
	// likewise, by the upstream's answers, or noted of other hosts when the ledger was restored
	Reported quota.Units      `json:"reported_units"`
	Floors   map[string]Floor `json:"floors"` // by region
	// only if each key has the limit; what is used is then of calls without a key
	Keys *KeyCount `json:"keys,omitempty"`
	// how far the newest entry is stamped ahead of the ledger's clock, 0 unless it is minutes
	Ahead int64 `json:"ahead_s"`

	ConfiguredLimit quota.Units `json:"own_limit"` // of this configuration
	// when a lower limit ends that another one has asked; null if own_limit holds
	LimitUntil *time.Time `json:"limit_until"`

	// of the last pace_over_s, in its measure; null if the log is too short
	PaceHour *float64 `json:"pace_per_hour"`
	PaceOver *int64   `json:"pace_over_s"` // likewise
	// at that pace; null if that is not before the end of the next window
	RunsOutAt *time.Time `json:"runs_out_at"`
	// when the schedule's first call is refused; null without a schedule, or if none is
	PlanOutAt *time.Time `json:"runs_out_by_plan_at"`

	Shadow bool `json:"shadow"` // it refuses nothing
	// calls that a shadow would have refused in its window; null if it is none
	WouldRefuse      *int         `json:"would_refuse"`
	WouldRefuseUnits *quota.Units `json:"would_refuse_units"`   // their units
	WouldRefuseAt    *time.Time   `json:"would_refuse_last_at"` // the last of them

	Reserved  quota.Units `json:"reserved"`   // of what is used: calls in flight may give it back
	LimitText string      `json:"limit_text"` // what the limit is: 20, +1 per 60s
	// what the upstream must have counted beside ration: see Outside; null if nothing
	Outside *string `json:"outside"`

	WindowText string `json:"-"` // the window in words
}

// Floor is what a budget keeps for a region.
type Floor struct {
	Floor quota.Units `json:"floor"`
	Used  quota.Units `json:"used"`
	Kept  quota.Units `json:"kept"` // of the floor, not used yet
}

// Number writes an amount of what the budget counts: 12.50 for dollars, and
// otherwise an integer.
func (b *BudgetReport) Number(n quota.Units) string { return quota.Measure(b.Measure).Number(n) }

// NewBudgetReport returns a budget's status for JSON.
func NewBudgetReport(b *BudgetStatus) *BudgetReport {
	s := &BudgetReport{Account: b.Budget.Account, Name: b.Budget.Name, Limit: b.Limit(),
		LimitText: b.Budget.LimitText(b.Limit()), ConfiguredLimit: b.Budget.Limit, Used: b.Used, Remaining: b.Remaining,
		Reserved: b.Open,
		Window:   b.Budget.Window.String(), WindowText: b.Budget.Window.Words(), Shadow: b.Budget.Shadow,
		Measure: b.Budget.Measure.String(), Ahead: human.Seconds(b.Ahead),
		LimitUntil: human.OptionalTime(b.LimitUntil), NextFreeAt: human.OptionalTime(b.NextFree),
		NextFree: append([]Return{}, b.Returns...), Attribution: b.Attribution.NotNil(), Reconciled: b.Corrected,
		Reported: b.Reported, Floors: map[string]Floor{}}
	for region, units := range b.Budget.Floor { // as long as there is no ledger, none of it is used
		s.Floors[region] = Floor{Floor: units, Kept: units}
	}
	for _, f := range b.Floors {
		s.Floors[f.Region] = Floor{Floor: f.Floor, Used: f.Used, Kept: f.Kept}
	}
	if b.PaceOver > 0 {
		s.PaceHour, s.PaceOver = &b.Pace, new(human.Seconds(b.PaceOver))
		s.RunsOutAt = human.OptionalTime(b.RunsOut.Truncate(time.Second))
	}
	if c := b.Cooldown; c != nil {
		s.CooldownUntil, s.CooldownReason = human.OptionalTime(c.Until), &c.Reason
	}
	return s
}

// LogReport summarizes the log of an account, for JSON.
type LogReport struct {
	Account string `json:"account"`
	// how long entries are kept for the windows and the history; 0 if none are
	Keeps           int64       `json:"keeps_s"`
	Entries         int64       `json:"entries"`
	Calls           quota.Units `json:"calls"`
	Units           quota.Units `json:"units"`
	Oldest          *time.Time  `json:"oldest"`
	Newest          *time.Time  `json:"newest"`
	ReconciledUnits quota.Units `json:"reconciled_units"` // as in BudgetReport
	ReconciledCalls quota.Units `json:"reconciled_calls"`
	ReportedUnits   quota.Units `json:"reported_units"`
	ReportedCalls   quota.Units `json:"reported_calls"`
}

// LineReport is a Line for JSON.
type LineReport struct {
	At      time.Time   `json:"at"`
	ID      string      `json:"id"`
	Account string      `json:"account"`
	Method  string      `json:"method"`
	Units   quota.Units `json:"units"`
	Calls   quota.Units `json:"calls"`
	Amounts Amounts     `json:"amounts,omitempty"` // in named measures
	Lane    string      `json:"lane"`
	Job     string      `json:"job"`
	Region  string      `json:"region"`
	Key     string      `json:"key,omitempty"`
	Host    string      `json:"host"`
	Run     string      `json:"run"`
	Kind    string      `json:"kind"` // as quota.EntryKind spells it

	Remark string `json:"-"` // says what the entry is, if it is not a call, and its named amounts
}

// Amounts are amounts of named measures; in JSON, usd is in dollars.
type Amounts map[quota.Measure]quota.Units

// MarshalJSON implements json.Marshaler.
func (a Amounts) MarshalJSON() ([]byte, error) {
	numbers := map[quota.Measure]json.Number{}
	for m, n := range a {
		numbers[m] = json.Number(m.Number(n))
	}
	return json.Marshal(numbers)
}

// Numbers returns the amounts of measures, in their order, without names.
func (a Amounts) Numbers(of []quota.Measure) (numbers []string) {
	for _, m := range of {
		numbers = append(numbers, m.Number(a[m]))
	}
	return numbers
}

// String lists the amounts: 800 input_tokens, $0.012.
func (a Amounts) String() string {
	var parts []string
	for _, m := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, m.Text(a[m]))
	}
	return strings.Join(parts, ", ")
}

// NewLineReport returns a line for JSON.
func NewLineReport(l *Line) *LineReport {
	return &LineReport{At: l.At, ID: l.ID.String(), Account: l.Account, Method: name(l.Method), Units: l.Units,
		Calls:   l.Calls,
		Amounts: Amounts(l.Measures), Lane: name(l.Caller.Lane), Job: name(l.Caller.Job), Region: name(l.Caller.Region),
		Key: l.Key, Host: name(l.Host),
		Run: Run(l.ID.Client), Kind: l.Kind.String(),
		Remark: strings.Trim(remark(&l.Entry)+"; "+Amounts(l.Measures).String(), "; ")}
}

// remark says what an entry is that is not a call.
func remark(e *quota.Entry) string {
	switch {
	case e.Kind == quota.EntryCall:
		return ""
	case e.Kind == quota.EntryRefunded:
		return "refunded"
	case e.Kind == quota.EntryRefused:
		return "refused by " + cmp.Or(e.Budget, "a cooldown of the account")
	case e.Method == engine.Restored:
		return "restored what the ledger had lost"
	case e.Units == 0 && e.Calls == 0:
		return "not a call, by hand"
	case e.Kind == quota.EntryCorrection:
		return "found missing " + byHand
	}
	return "found missing " + byOthers
}
