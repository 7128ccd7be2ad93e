package costs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/strictyaml"
)

//go:embed presets
var presetFiles embed.FS

// Preset is a built-in table: the costs of an upstream's methods, and its
// budgets, as documented on a day.
type Preset struct {
	Name         string         `json:"name"`          // as in costs.yaml, such as youtube/2026-06
	About        string         `json:"about"`         // what it is for
	Date         Date           `json:"date"`          // when its figures were last checked against the sources
	SupersededBy *string        `json:"superseded_by"` // name of the preset that replaces it; nil if there is none
	Sources      []Source       `json:"sources"`
	Variants     []Variant      `json:"variants"` // sorted by name
	Required     []RequiredLine `json:"asks"`     // lines that the user must add
	Unknown      []string       `json:"unknown"`  // facts that the sources do not state
	Examples     []Example      `json:"examples"` // requests, and what they cost

	text    string
	windows []string // names of the budgets whose windows are the variants'
}

// Variant is a named change to a preset, such as a plan of the upstream.
type Variant struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// RequiredLine is a line that a preset's user must add, and what to write
// there: a line of costs.yaml, with a comment perhaps.
type RequiredLine struct {
	Line  string `json:"line"`
	Write string `json:"write"`
}

// Example is a request, and what it costs by the preset with its first variant,
// if it needs one: its method, units and budgets, or refused, or unguarded.
type Example struct {
	Request string `json:"request"` // such as GET https://api.github.com/repos/o/r
	Cost    string `json:"cost"`
}

// YAML returns the preset's file.
func (p *Preset) YAML() string { return p.text }

// Presets returns the built-in presets, sorted by name.
func Presets() []Preset {
	var all []Preset
	for _, name := range presetNames() {
		d := newDocument(strictyaml.Node{})
		d.preset = true
		d.applyPreset(name, strictyaml.Node{})
		all = append(all, *d.Preset)
	}
	return all
}

// FindPreset returns the preset of a name, or of a word in the name, such as
// github: superseded ones only by their names. If several names have the word,
// it returns these instead.
func FindPreset(name string) (found *Preset, several []string) {
	for _, p := range Presets() {
		if p.Name == name {
			return &p, nil
		}
		words := strings.FieldsFunc(p.Name, func(r rune) bool { return r == '-' || r == '/' })
		if p.SupersededBy == nil && slices.Contains(words, name) {
			found, several = &p, append(several, p.Name)
		}
	}
	if len(several) > 1 {
		return nil, several
	}
	return found, nil
}

const presetEnd = ".yaml"

func presetNames() []string {
	var names []string
	_ = fs.WalkDir(presetFiles, "presets", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, presetEnd) {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(path, "presets/"), presetEnd))
		}
		return err
	})
	slices.Sort(names)
	return names
}

// readPreset reads NAME or {name: NAME, variant: VARIANT}, and the lines of
// that preset.
func (d *document) readPreset(n strictyaml.Node) {
	name, variant := n, strictyaml.Node{}
	if n.Kind() == strictyaml.Map {
		name = strictyaml.Node{}
		n.Fields(
			strictyaml.Field{Key: "name", Missing: "name: youtube/2026-06", Read: func(n strictyaml.Node) { name = n }},
			strictyaml.Field{Key: "variant", Read: func(n strictyaml.Node) { variant = n }},
		)
	}
	if name == (strictyaml.Node{}) {
		return
	}
	if chosen := name.OneOf("preset", presetNames()); chosen != "" {
		d.applyPreset(chosen, variant)
	}
}

// applyPreset reads the lines of a preset, and over them those of its variant
// if there is one.
func (d *document) applyPreset(name string, variant strictyaml.Node) {
	data, err := presetFiles.ReadFile("presets/" + name + presetEnd)
	if err != nil {
		d.at["preset"].Mistake("preset %s cannot be read: choose another (%v)", name, err)
		return
	}
	file := strictyaml.Parse("preset "+name, data)
	d.Preset = &Preset{Name: name, text: string(data)}
	d.Preset.Sources, d.Preset.Variants = []Source{}, []Variant{}
	d.Preset.Required, d.Preset.Unknown = []RequiredLine{}, []string{}
	d.Preset.Examples = []Example{}
	d.reading = d.Preset
	variants := map[string]strictyaml.Node{}
	for _, node := range file.Documents() {
		node.Fields(slices.Concat(d.Preset.fields(variants), d.lineFields())...)
	}
	d.layer++
	if variant != (strictyaml.Node{}) {
		d.applyVariant(variant, variants)
	}
	d.reading = nil
	if err := file.Err(); err != nil { // the tests read all that ship
		d.at["preset"].Mistake("preset %s is broken: choose another (%v)", name, err)
	}
}

func (d *document) applyVariant(at strictyaml.Node, variants map[string]strictyaml.Node) {
	var names []string
	for _, v := range d.Preset.Variants {
		names = append(names, v.Name)
	}
	if len(names) == 0 {
		at.Mistake("preset %s has no variants: remove it", d.Preset.Name)
		return
	}
	d.Variant = at.OneOf("variant of "+d.Preset.Name, names)
	if node, ok := variants[d.Variant]; ok {
		about := strictyaml.Field{Key: "about", Read: func(strictyaml.Node) {}}
		node.Fields(append(d.lineFields(), about)...)
		d.layer++
	}
}

// fields returns the keys that only presets have. They are read first, because
// the origins of lines need the sources.
func (p *Preset) fields(variants map[string]strictyaml.Node) []strictyaml.Field {
	text := func(into *string) func(strictyaml.Node) {
		return func(n strictyaml.Node) { *into = n.Text(anything) }
	}
	return []strictyaml.Field{
		{Key: "version", Missing: "version: 1", Read: func(n strictyaml.Node) { n.Int(1, 1) }},
		{Key: "about", Missing: "about: what it is for", Read: text(&p.About)},
		{Key: "date", Missing: "date: 2026-11-20, when its figures were read",
			Read: func(n strictyaml.Node) { p.Date = readDate(n) }},
		{Key: "superseded_by", Read: func(n strictyaml.Node) { p.SupersededBy = new(n.Text(anything)) }},
		{Key: "sources", Missing: "sources: {all: {document: …, read: 2026-11-20}}", Read: func(n strictyaml.Node) {
			n.Entries(func(key, value strictyaml.Node) {
				s := Source{Lines: key.Text(maxText)}
				value.Fields(
					strictyaml.Field{Key: "document", Missing: "document: where it was read", Read: text(&s.Document)},
					strictyaml.Field{Key: "read", Missing: "read: 2026-11-20",
						Read: func(n strictyaml.Node) { s.Read = readDate(n) }},
				)
				p.Sources = append(p.Sources, s)
			})
		}},
		{Key: "asks", Read: func(n strictyaml.Node) {
			n.Entries(func(key, value strictyaml.Node) {
				p.Required = append(p.Required, RequiredLine{Line: key.Text(maxText), Write: value.Text(anything)})
			})
		}},
		{Key: "examples", Read: func(n strictyaml.Node) {
			n.Entries(func(key, value strictyaml.Node) {
				p.Examples = append(p.Examples, Example{Request: key.Text(maxText), Cost: value.Text(maxText)})
			})
		}},
		{Key: "unknown", Read: func(n strictyaml.Node) {
			n.Items(func(n strictyaml.Node) { p.Unknown = append(p.Unknown, n.Text(anything)) })
		}},
		{Key: "variants", Read: func(n strictyaml.Node) {
			n.Entries(func(key, value strictyaml.Node) {
				v := Variant{Name: key.Text(maxText)}
				value.Entries(func(key, value strictyaml.Node) {
					switch key.Text(maxText) {
					case "about":
						v.About = value.Text(anything)
					case "budgets":
						value.Items(p.addWindow)
					}
				})
				p.Variants = append(p.Variants, v)
				variants[v.Name] = value
			})
			slices.SortFunc(p.Variants, func(a, b Variant) int { return strings.Compare(a.Name, b.Name) })
		}},
	}
}

// addWindow notes the window of a budget in a variant.
func (p *Preset) addWindow(budget strictyaml.Node) {
	if budget.Has("window") {
		budget.Entries(func(key, value strictyaml.Node) {
			if key.Text(maxText) == "name" {
				p.windows = append(p.windows, value.Text(maxText))
			}
		})
	}
}

func readDate(n strictyaml.Node) Date {
	text := n.Text(maxText)
	day, err := time.Parse(time.DateOnly, text)
	if err != nil && text != "" {
		n.Mistake("%q is not a date: write one such as 2026-11-20", text)
	}
	return Date{day}
}

// findAsk returns what the user must write for a line that the preset leaves
// out, or "" if it does not leave it out.
func (d *document) findAsk(line string) string {
	if d.Preset != nil {
		for _, ask := range d.Preset.Required {
			if ask.Line == line {
				return ask.Write
			}
		}
	}
	return ""
}

// checkAsks reports missing lines that the preset leaves to the user.
// checkComplete reports those of budgets.
func (d *document) checkAsks() {
	if d.Preset == nil {
		return
	}
	for _, ask := range d.Preset.Required {
		if !strings.Contains(ask.Line, ".") && d.Origin(ask.Line) == (Origin{}) {
			d.at["preset"].Mistake("preset %s does not know the %s: write %s", d.Preset.Name, ask.Line, ask.Write)
		}
	}
}
