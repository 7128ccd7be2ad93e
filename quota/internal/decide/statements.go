package decide

import (
	"encoding/json"
	"time"

	"github.com/ration-dev/ration/quota"
)

// heardJSON is a quota.WindowUse in a ledger. Times are in microseconds.
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
	Epoch   uint64        `json:"epoch,omitempty"`
}

// lifeJSON is a quota.Life in a ledger.
type lifeJSON struct {
	Client uint64 `json:"client"`
	Seq    uint64 `json:"seq,omitempty"`
	Epoch  uint64 `json:"epoch"`
	Since  int64  `json:"since"`
}

// gapJSON is a quota.Gap in a ledger.
type gapJSON struct {
	Epoch uint64 `json:"epoch"`
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	Until int64  `json:"until,omitempty"` // 0 for none
}

// statementsJSON is Statements in a ledger.
type statementsJSON struct {
	Heard []heardJSON `json:"heard"`
	Lives []lifeJSON  `json:"lives,omitempty"`
	Gaps  []gapJSON   `json:"gaps,omitempty"`
	Kept  int64       `json:"kept,omitempty"`
}

// Statements are what a log keeps of all restorations besides their entries.
type Statements struct {
	Heard []quota.WindowUse
	Lives []quota.Life
	Gaps  []quota.Gap
	Kept  time.Time // the log keeps only entries that are later; zero if it has kept all
}

// Format returns the statements as JSON, and nothing for none.
func (s *Statements) Format() []byte {
	if len(s.Heard)+len(s.Lives)+len(s.Gaps) == 0 && s.Kept.IsZero() {
		return nil
	}
	out := statementsJSON{Heard: make([]heardJSON, len(s.Heard)), Lives: make([]lifeJSON, len(s.Lives)), Kept: StampOrZero(s.Kept)}
	for i, h := range s.Heard {
		c := h.Coverage
		out.Heard[i] = heardJSON{h.Client, h.Budget, c.Measure, c.Methods, c.Except, c.Lanes, c.Regions, h.Since.UnixMicro(), h.At.UnixMicro(), h.Used, h.Epoch}
	}
	for i, life := range s.Lives {
		out.Lives[i] = lifeJSON{life.Client, life.Seq, life.Epoch, life.Since.UnixMicro()}
	}
	for _, g := range s.Gaps {
		out.Gaps = append(out.Gaps, gapJSON{g.Epoch, g.From.UnixMicro(), g.To.UnixMicro(), StampOrZero(g.Until)})
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot hold
	}
	return text
}

// ParseStatements parses what Format returned.
func ParseStatements(text []byte) (s Statements, err error) {
	if len(text) == 0 {
		return s, nil
	}
	var in statementsJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return s, err
	}
	for _, h := range in.Heard {
		coverage := quota.NewCoverage(quota.Coverage{Measure: h.Measure, Methods: h.Methods, Except: h.Except, Lanes: h.Lanes, Regions: h.Regions})
		s.Heard = append(s.Heard, quota.WindowUse{Client: h.Client, Budget: h.Budget, Coverage: coverage, Since: Time(h.Since), At: Time(h.At), Used: h.Used, Epoch: h.Epoch})
	}
	for _, life := range in.Lives {
		s.Lives = append(s.Lives, quota.Life{Client: life.Client, Seq: life.Seq, Epoch: life.Epoch, Since: Time(life.Since)})
	}
	for _, g := range in.Gaps {
		s.Gaps = append(s.Gaps, quota.Gap{Epoch: g.Epoch, From: Time(g.From), To: Time(g.To), Until: TimeOrZero(g.Until)})
	}
	s.Kept = TimeOrZero(in.Kept)
	return s, nil
}

// StampOrZero returns a time in microseconds, and 0 for no time.
func StampOrZero(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// TimeOrZero is the inverse of StampOrZero.
func TimeOrZero(stamp int64) time.Time {
	if stamp <= 0 {
		return time.Time{}
	}
	return Time(stamp)
}
