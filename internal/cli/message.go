package cli

import "github.com/ration-dev/ration/internal/report"

// RedactMessage returns the text of an error for the users of a command: with
// its RedactURLs cut as URLs does, and without the package's name in front of
// the errors of package quota.
func RedactMessage(text string) string { return report.WithoutPackage(RedactURLs(text)) }
