package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// LedgerState is for JSON documents: whether the ledger can be asked.
type LedgerState struct {
	Down    bool        `json:"down"`
	Since   *time.Time  `json:"since"`
	Until   *time.Time  `json:"until"` // when this process found that it answers again
	Reason  *string     `json:"reason"`
	Granted quota.Units `json:"granted_units"` // by this process, without it

	// Unrecorded is what all processes of this host were granted in the last
	// 24 hours and the ledger does not have yet; nil if that is not known.
	Unrecorded *quota.Units `json:"unrecorded_units"`
}

// NewLedgerState returns the state that an outage shows, or the zero
// LedgerState for nil. It does not set Unrecorded.
func NewLedgerState(outage *OutageError) (s LedgerState) {
	if outage != nil {
		s.Down = outage.Down
		s.Since = human.OptionalTime(outage.Since)
		s.Until = human.OptionalTime(outage.Until)
		s.Reason, s.Granted = &outage.Reason, outage.Total
	}
	return s
}

// String says that the ledger is or was down, and what was granted without it.
// It is "" if no outage is known.
func (s LedgerState) String() string {
	if s.Since == nil {
		return ""
	}
	text, recorded := "down since "+human.Time(*s.Since), "to be recorded when it is back"
	if !s.Down && s.Until != nil {
		recorded = "now recorded"
		text = fmt.Sprintf("was down from %s to %s", human.Time(*s.Since), human.Time(*s.Until))
	}
	if s.Reason != nil {
		text += ": " + *s.Reason
	}
	if s.Granted > 0 {
		text += fmt.Sprintf("; %s went out without it, %s", human.Count(s.Granted, "unit"), recorded)
	}
	return text
}

// LedgerState returns what the client knows of its ledger.
func (c *Client) LedgerState() LedgerState {
	s := NewLedgerState(c.Outage())
	if units, err := c.Unrecorded(); err == nil {
		s.Unrecorded = &units
	}
	return s
}

// AddTo returns a document as JSON, with the state of the ledger as its
// last key.
func (s LedgerState) AddTo(document any) (json.RawMessage, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	state, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if body, ok := strings.CutSuffix(string(text), "}"); ok {
		if body != "{" {
			body += ","
		}
		text = fmt.Appendf(nil, `%s"ledger_state":%s}`, body, state)
	}
	return text, nil
}
