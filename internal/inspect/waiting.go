package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
)

// WaitingStep is a step that is not tried for a while because it keeps failing,
// for JSON.
type WaitingStep struct {
	Region   string    `json:"region"` // "" for a method, in all regions
	Step     string    `json:"step"`
	Failures int       `json:"failures"` // in a row
	Until    time.Time `json:"until"`
	Reason   string    `json:"reason"` // of the last failure
}

// String says that the step waits, until when and why.
func (s *WaitingStep) String() string {
	return fmt.Sprintf("%s failed %s in a row, and is not tried before %s; last: %s",
		strings.TrimSpace(s.Region+" "+s.Step), human.Count(s.Failures, "time"), human.Time(s.Until), s.Reason)
}

// WaitingSteps returns the steps that wait. Without a catalogue there are none.
func WaitingSteps(ctx context.Context, s *setup.Setup) ([]WaitingStep, error) {
	waiting := []WaitingStep{}
	store, err := s.FindCatalog()
	if errors.Is(err, catalog.ErrNoCatalog) || errors.Is(err, catalog.ErrOlder) {
		return waiting, nil
	}
	if err != nil {
		return waiting, err
	}
	defer store.Close()
	failures, err := store.Failures(ctx)
	for _, f := range failures {
		if f.Until.After(s.Now()) {
			waiting = append(waiting, WaitingStep{f.Region, f.Name, f.Count, human.JSONTime(f.Until),
				s.Clean(f.Reason)})
		}
	}
	return waiting, err
}
