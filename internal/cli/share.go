package cli

import (
	"errors"
	"strconv"
	"strings"
)

// ShareFlag is a flag that takes a share such as 20%.
type ShareFlag struct{ Part *float64 }

// Set reads a share.
func (f ShareFlag) Set(text string) error {
	number, isPercent := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if isInRange := percent > 0 && percent <= 100; err != nil || !isPercent || !isInRange {
		return errors.New("give a share such as 20%, up to 100%")
	}
	*f.Part = percent / 100
	return nil
}

// String returns no default.
func (f ShareFlag) String() string { return "" }

// Type returns the word for the value.
func (f ShareFlag) Type() string { return "share" }
