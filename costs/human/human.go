// Package human writes times, durations, counts and names as ration's messages,
// tables and JSON documents do.
package human

import (
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
)

// Time formats t as textfmt.Time does.
func Time(t time.Time) string { return textfmt.Time(t) }

// Duration formats d rounded up, as textfmt.Duration does.
func Duration(d time.Duration) string { return textfmt.Duration(d) }

// Exactly formats d as textfmt.Exactly does.
func Exactly(d time.Duration) string { return textfmt.Exactly(d) }
