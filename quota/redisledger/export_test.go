package redisledger

import "time"

// ErrFull is what a log answers that holds as much as it can.
var ErrFull = errFull

// SetHost sets the clock of the ledger's host, which is not the server's.
func SetHost(l *Ledger, now func() time.Time) { l.host = now }

// CommonLua is what all scripts begin with.
var CommonLua = baseLua

// LogKey returns the key of an account's log.
func LogKey(l *Ledger, account string) string { return l.names(account, "").log }
