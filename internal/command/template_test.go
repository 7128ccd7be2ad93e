package command_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/command"
)

func TestExpandReplacesPlaceholders(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	values := &command.Values{Region: "emea", Zone: "Europe/Berlin", Tick: time.Date(2026, 11, 20, 7, 0, 0, 0, berlin)}
	for arg, want := range map[string]string{
		"":                           "",
		"plain text":                 "plain text",
		"{region}":                   "emea",
		"--at={tick}/{zone}{zone}":   "--at=2026-11-20T06:00:00Z/Europe/BerlinEurope/Berlin",
		"{{region}}":                 "{region}",
		"{{{region}}}":               "{emea}",
		`{{"a": {{"b": "{region}"}}`: `{"a": {"b": "emea"}`,
		"}}{{":                       "}{",
	} {
		if got, err := command.Expand(arg, values); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", arg, got, err, want)
		}
	}
	for arg, want := range map[string]string{
		"{regoin}": `unknown placeholder "{regoin}": write {region}`,
		"{Region}": `unknown placeholder "{Region}": write {region}`,
		"${HOME}": `unknown placeholder "{HOME}": write {region}, {tick} or {zone}, or {{ and }} for the braces ` +
			`themselves`,
		"{}": `unknown placeholder "{}": write {region}, {tick} or {zone}, or {{ and }} for the braces ` +
			`themselves`,
		"{region":   `a single "{": write {region}, {tick} or {zone}, or {{ for the brace itself`,
		"region}":   `a single "}": write {region}, {tick} or {zone}, or }} for the brace itself`,
		"{region}}": `a single "}": write {region}, {tick} or {zone}, or }} for the brace itself`,
	} {
		if got, err := command.Expand(arg, values); err == nil || err.Error() != want {
			t.Errorf("%q: %q, %v; want the error %s", arg, got, err, want)
		}
	}
}
