package costs

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// Origin says where a line of a table comes from: a file, or a preset and the
// source of its figure. The zero Origin is a default.
type Origin struct {
	File   string  // as passed to Load; "" for a line of a preset
	Line   int     // line number in File
	Preset string  // name of the preset; "" for a line of the file
	Source *Source // of a preset's line; nil if it has none
}

// Source is where the figures of a preset were read.
type Source struct {
	Lines    string `json:"lines"`    // the lines that it applies to: all, costs, budgets.NAME, …
	Document string `json:"document"` // address of the document, and the part of it
	Read     Date   `json:"read"`     // the day on which it was read
}

// Date is midnight UTC of a day. It is printed as 2026-11-20, in JSON too.
type Date struct{ time.Time }

// String returns the day as 2026-11-20.
func (d Date) String() string { return d.Format(time.DateOnly) }

// MarshalJSON implements json.Marshaler.
func (d Date) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// String returns the origin as in messages, such as costs.yaml:12 or
// preset youtube/2026-06.
func (o Origin) String() string {
	switch {
	case o.Preset != "":
		return "preset " + o.Preset
	case o.File != "":
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	}
	return "default"
}

// MarshalJSON implements json.Marshaler. What the origin does not have is null.
func (o Origin) MarshalJSON() ([]byte, error) {
	var out struct {
		File     *string `json:"file"`
		Line     *int    `json:"line"`
		Preset   *string `json:"preset"`
		Document *string `json:"document"`
		Read     *Date   `json:"read"`
	}
	if o.File != "" {
		out.File, out.Line = &o.File, &o.Line
	}
	if o.Preset != "" {
		out.Preset = &o.Preset
	}
	if o.Source != nil {
		out.Document, out.Read = &o.Source.Document, &o.Source.Read
	}
	return json.Marshal(out)
}

// Origin returns the origin of a line, given by its keys: "hosts"; or "costs"
// and a method; or "budgets", the name of a budget and one of its keys.
func (u *Upstream) Origin(line ...string) Origin { return u.origins[originKey(line)] }

func originKey(line []string) string { return strings.Join(line, "\x00") }

// placed makes the reading of each field record its place and its origin.
func (d *document) placed(fields []strictyaml.Field) []strictyaml.Field {
	for i, field := range fields {
		fields[i].Read = func(n strictyaml.Node) {
			d.at[field.Key] = d.placeFor(n)
			field.Read(n)
			d.setOrigin(n, field.Key)
		}
	}
	return fields
}

// setOrigin records the origin of a line.
func (d *document) setOrigin(n strictyaml.Node, line ...string) {
	o := originOf(n)
	if d.reading != nil {
		o = Origin{Preset: d.reading.Name, Source: d.reading.sourceOf(line)}
	}
	d.origins[originKey(line)] = o
}

// originOf returns the origin of a line of the file itself.
func originOf(n strictyaml.Node) (o Origin) {
	o.File, o.Line, _ = n.Place()
	return o
}

// placeFor returns the node at which to report a later mistake with n. For a
// line of a preset, which the user cannot edit, it is the place that names
// the preset.
func (d *document) placeFor(n strictyaml.Node) strictyaml.Node {
	if d.reading != nil {
		return d.at["preset"]
	}
	return n
}

// sourceOf returns the most specific source of a line: its own, or that of the
// lines it belongs to, or that of all lines.
func (p *Preset) sourceOf(line []string) *Source {
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
