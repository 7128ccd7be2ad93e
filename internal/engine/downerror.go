package engine

import "fmt"

// DownError is an ErrLedgerDown with its cause.
type DownError struct {
	Where  string // the store, such as "redis at 127.0.0.1:6379"
	Err    error
	Step   string // what to do about it
	Common bool   // Step is what to do about every outage of such a store
}

// Error says what is down, why, and what to do.
func (e *DownError) Error() string {
	return fmt.Sprintf("%v: %s: %v; %s", ErrLedgerDown, e.Where, e.Err, e.Step)
}

// Short says what is down and why, and what to do if that depends on why.
func (e *DownError) Short() string {
	if e.Common {
		return fmt.Sprintf("%s: %v", e.Where, e.Err)
	}
	return fmt.Sprintf("%s: %v; %s", e.Where, e.Err, e.Step)
}

// Unwrap returns ErrLedgerDown and Err.
func (e *DownError) Unwrap() []error { return []error{ErrLedgerDown, e.Err} }
