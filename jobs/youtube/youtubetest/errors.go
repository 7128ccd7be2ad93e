package youtubetest

import "fmt"

// LineError reports an invalid line of a data file.
type LineError struct {
	Line int // from 1
	Err  error
}

// Error names the line and what is wrong with it.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %v; correct or remove the line", e.Line, e.Err)
}

// Unwrap returns what is wrong with the line.
func (e *LineError) Unwrap() error { return e.Err }
