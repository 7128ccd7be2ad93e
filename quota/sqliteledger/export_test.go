package sqliteledger

// Pragma sets a pragma of the connection that appends.
func (l *Ledger) Pragma(text string) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	return l.writer.script("PRAGMA " + text)
}
