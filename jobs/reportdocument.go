package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Document returns the report for JSON. err is the error of the run, and reason
// returns the text of an error, without secrets, or nil for nil.
func (r *Report) Document(err error, reason func(error) *string) any {
	type region struct {
		Region  string       `json:"region"`
		Tick    *time.Time   `json:"tick"`
		Outcome string       `json:"outcome"`
		Calls   *int         `json:"calls"` // nil: not known
		Units   *quota.Units `json:"units"` // likewise
		Videos  int          `json:"videos"`
		Reason  *string      `json:"reason"`
	}
	out := struct {
		Outcome string       `json:"outcome"`
		Units   *quota.Units `json:"units"` // nil: not known
		RetryAt *time.Time   `json:"retry_at"`
		Reason  *string      `json:"reason"`
		Regions []region     `json:"regions"`
	}{Outcome: string(r.Outcome), Units: &r.Units, RetryAt: human.OptionalTime(r.RetryAt), Reason: reason(err),
		Regions: []region{}}
	for i := range r.Regions {
		of := &r.Regions[i]
		one := region{Region: of.Region, Tick: human.OptionalTime(of.Tick), Outcome: string(of.Outcome),
			Calls: &of.Calls, Units: &of.Units, Videos: of.Videos, Reason: reason(of.Err)}
		if of.Unmetered {
			one.Calls = nil
			one.Units = nil
			out.Units = nil
		}
		out.Regions = append(out.Regions, one)
	}
	return out
}

// Table returns the report as a table, a row for each region. hasVideos is
// whether it has a column of videos, clock writes a time, and redact removes
// secrets from a reason.
func (r *Report) Table(hasVideos bool, clock func(time.Time) string, redact func(string) string) (headings []string,
	rows [][]any) {
	headings = []string{"region", "tick", "outcome", "calls", "units"}
	if hasVideos {
		headings = append(headings, "videos")
	}
	for i := range r.Regions {
		of := &r.Regions[i]
		calls, units := of.Charges()
		row := []any{of.Region, clock(of.Tick), of.Outcome, calls, units}
		if hasVideos {
			row = append(row, of.Videos)
		}
		rows = append(rows, append(row, redact(of.ShortReason())))
	}
	return append(headings, ""), rows
}

// Charges returns what to show of Calls and Units: numbers, or that they are
// unknown.
func (r *RegionReport) Charges() (calls, units any) {
	if r.Unmetered {
		return "unknown", "unknown"
	}
	return r.Calls, int64(r.Units)
}

// ShortReason returns why a region is not done, short enough for a table:
// DescribeCauses says all of it.
func (r *RegionReport) ShortReason() string {
	refused, ok := errors.AsType[*quota.RefusedError](r.Err)
	switch {
	case r.Err == nil:
		return ""
	case ok && refused.Reason == quota.ReasonCooldown:
		return "cooldown until " + human.Time(refused.RetryAt)
	case ok && !refused.IsOfProcess():
		return fmt.Sprintf("%s: %d of %d left", refused.Budget, refused.Remaining, refused.Limit)
	}
	return r.Err.Error()
}
