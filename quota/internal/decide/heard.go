package decide

import (
	"encoding/json"
	"time"

	"github.com/ration-dev/ration/quota"
)

// heardJSON is a quota.Heard in a ledger. Times are in microseconds.
type heardJSON struct {
	Client  uint64        `json:"client"`
	Budget  string        `json:"budget"`
	Measure quota.Measure `json:"measure,omitempty"`
	Methods []string      `json:"methods,omitempty"`
	Except  []string      `json:"except,omitempty"`
	Lanes   []string      `json:"lanes,omitempty"`
	Regions []string      `json:"regions,omitempty"`
	Since   int64         `json:"since"`
	At      int64         `json:"at"`
	Used    quota.Units   `json:"used"`
}

// FormatHeard returns statements as JSON, and nothing for none.
func FormatHeard(heard []quota.Heard) []byte {
	if len(heard) == 0 {
		return nil
	}
	list := make([]heardJSON, len(heard))
	for i, h := range heard {
		c := h.Coverage
		list[i] = heardJSON{h.Client, h.Budget, c.Measure, c.Methods, c.Except, c.Lanes, c.Regions, h.Since.UnixMicro(), h.At.UnixMicro(), h.Used}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot hold
	}
	return text
}

// ParseHeard parses what FormatHeard returned.
func ParseHeard(text []byte) ([]quota.Heard, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var list []heardJSON
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	heard := make([]quota.Heard, len(list))
	for i, h := range list {
		coverage := quota.NewCoverage(quota.Coverage{Measure: h.Measure, Methods: h.Methods, Except: h.Except, Lanes: h.Lanes, Regions: h.Regions})
		heard[i] = quota.Heard{Client: h.Client, Budget: h.Budget, Coverage: coverage, Since: time.UnixMicro(h.Since).UTC(), At: time.UnixMicro(h.At).UTC(), Used: h.Used}
	}
	return heard, nil
}
