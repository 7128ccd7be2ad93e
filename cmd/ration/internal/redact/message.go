package redact

import "github.com/ration-dev/ration/costs/human"

// Message returns the text of an error for the users of a command: with its
// URLs cut as URLs does, and without the package's name in front of the errors
// of package quota.
func Message(text string) string { return human.WithoutPackage(URLs(text)) }
