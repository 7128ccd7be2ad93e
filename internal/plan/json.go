package plan

import (
	"encoding/json"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// MarshalJSON implements json.Marshaler. The budget's name, window and limit
// stand beside the figures; peak_at is null if the peak is 0.
func (b BudgetReport) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Account    string      `json:"account"`
		Name       string      `json:"name"`
		Window     string      `json:"window"`
		Measure    string      `json:"measure"`
		Limit      quota.Units `json:"limit"`
		Peak       quota.Units `json:"peak"`
		PeakAt     *time.Time  `json:"peak_at"`
		PeakLate   quota.Units `json:"peak_late"`
		NeedLate   quota.Units `json:"need_late"`
		Refused    int         `json:"refused"`
		Unused     quota.Units `json:"unused"`
		UnusedMean quota.Units `json:"unused_mean"`
		Shadow     bool        `json:"shadow"`
	}{b.Budget.Account, b.Budget.Name, b.Budget.Window.String(), b.Budget.Measure.String(), b.Budget.Limit,
		b.Peak, human.OptionalTime(b.PeakAt), b.PeakLate, b.Need, b.Refused, b.Unused, b.UnusedMean, b.Budget.Shadow})
}

// MarshalJSON implements json.Marshaler. Of the first refusal it has the times
// only; they are null if there is none.
func (r RegionReport) MarshalJSON() ([]byte, error) {
	out := struct {
		Region            string      `json:"region"`
		Ticks             int         `json:"ticks"`
		TicksRefused      int         `json:"ticks_refused"`
		Planned           int         `json:"planned"`
		Refused           int         `json:"refused"`
		Units             quota.Units `json:"units"`
		RefusedUnits      quota.Units `json:"refused_units"`
		FirstRefusedAt    *time.Time  `json:"first_refused_at"`
		FirstRefusedLocal *string     `json:"first_refused_local"`
	}{Region: r.Region, Ticks: r.Ticks, TicksRefused: r.Hit,
		Planned: r.Planned, Refused: r.Refused, Units: r.Units,
		RefusedUnits: r.RefusedUnits}
	if f := r.First; f != nil {
		out.FirstRefusedAt, out.FirstRefusedLocal = &f.At, new(f.Local.Format(time.RFC3339))
	}
	return json.Marshal(out)
}

// MarshalJSON implements json.Marshaler. budget is null if a whole account
// refused the call.
func (f Refusal) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		At      time.Time `json:"at"`
		Local   string    `json:"local"`
		Region  string    `json:"region"`
		Job     string    `json:"job"`
		Budget  *string   `json:"budget"`
		Reason  string    `json:"reason"`
		Message string    `json:"message"`
	}{f.At, f.Local.Format(time.RFC3339), f.Region, f.Step, human.Optional(f.Err.Budget), string(f.Err.Reason),
		f.Err.Error()})
}

// MarshalJSON implements json.Marshaler. If no schedule was found there is only
// the reason, and otherwise there is none.
func (s Suggestion) MarshalJSON() ([]byte, error) {
	out := struct {
		Fits    bool         `json:"fits"`
		Reason  *string      `json:"reason"`
		Changes []Change     `json:"changes"`
		Calls   *int         `json:"calls"`
		Units   *quota.Units `json:"units"`
		YAML    *string      `json:"yaml"`
	}{Fits: s.Report != nil, Changes: []Change{}}
	if s.Report == nil {
		out.Reason = &s.Reason
	} else {
		out.Changes = append(out.Changes, s.Changes...)
		out.Calls = &s.Report.Calls
		out.Units = &s.Report.Units
		out.YAML = new(s.YAML())
	}
	return json.Marshal(out)
}
