package costs

import (
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/strictyaml"
)

// Origin says where a line of a table comes from: a file, or a preset and
// there the source of its figure. The zero Origin is a default.
type Origin struct {
	File   string // as it was named to Load; empty for a preset's
	Line   int
	Preset string  // empty for a file's own
	Source *Source // of a preset's line; nil when it names none
}

// Source is where a preset's figures were read.
type Source struct {
	Lines    string    // which lines have it: all, costs, budgets.NAME, …
	Document string    // its address, and what of it
	Read     time.Time // the day
}

// String returns the origin as messages write it: costs.yaml:12, or the
// preset's name.
func (o Origin) String() string {
	switch {
	case o.Preset != "":
		return "preset " + o.Preset
	case o.File != "":
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return "default"
}

// Origin returns where a line of the upstream comes from: "hosts", or "costs"
// and a method, or "budgets", a budget and one of its keys.
func (u *Upstream) Origin(line ...string) Origin { return u.origins[originKey(line)] }

func originKey(line []string) string { return strings.Join(line, "\x00") }

// note keeps where a line comes from.
func (d *document) note(n strictyaml.Node, line ...string) {
	o := origin(n)
	if d.reading != nil {
		o = Origin{Preset: d.reading.Name, Source: d.reading.source(line)}
	}
	d.origins[originKey(line)] = o
}

// origin returns the place of a file's own line.
func origin(n strictyaml.Node) (o Origin) {
	o.File, o.Line, _ = n.Place()
	return o
}

// at returns where a mistake with n is told that only shows later: a preset's
// own lines are not the reader's to mend.
func (d *document) at(n strictyaml.Node) strictyaml.Node {
	if d.reading != nil {
		return d.presetAt
	}
	return n
}

// source returns the source of a line: the one for just that, else for what
// it is a part of, else for all.
func (p *Preset) source(line []string) *Source {
	for parts := len(line); parts >= 0; parts-- {
		lines := strings.Join(line[:parts], ".")
		if parts == 0 {
			lines = "all"
		}
		for i := range p.Sources {
			if p.Sources[i].Lines == lines {
				return &p.Sources[i]
			}
		}
	}
	return nil
}
