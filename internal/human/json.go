package human

import (
	"time"
)

// Given is the inverse of Optional: it returns "" for nil.
func Given(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Optional returns a text for JSON. The empty one is nil.
func Optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// OptionalTime returns a time for JSON: see JSONTime. The zero time is nil.
func OptionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(JSONTime(t))
}

// JSONTime returns a time that JSON can hold: in UTC, and at most
// human.MaxUnix.
func JSONTime(t time.Time) time.Time {
	if t.Unix() > MaxUnix {
		t = time.Unix(MaxUnix, 0)
	}
	return t.UTC()
}

// Seconds returns a duration for JSON: in whole seconds, rounded up.
func Seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}

// SecondsUntil is Seconds from one time to another. They may be further apart
// than a time.Duration can be.
func SecondsUntil(from, to time.Time) int64 {
	whole := to.Unix() - from.Unix()
	if to.Nanosecond() > from.Nanosecond() {
		whole++
	}
	return whole
}
