package youtubetest

import "fmt"

// LineError is a line of a data file that cannot be used.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error names the line and what is wrong with it.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %v; correct the line or take it out", e.Line, e.Err)
}

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }
