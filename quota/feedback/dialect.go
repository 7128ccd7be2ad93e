package feedback

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

// A dialect is nothing but rules, in a file of its own.
//
//go:embed dialects
var dialectFiles embed.FS

// Dialect is how one upstream reports its quota.
type Dialect struct {
	Name     string   `json:"name"`
	Source   string   `json:"source"`            // the upstream's document, and public threads
	Read     string   `json:"read,omitempty"`    // the day on which the rules were compared with Source
	From     string   `json:"from,omitempty"`    // where facts come from that were not read there
	Unknown  []string `json:"unknown,omitempty"` // what the rules do not cover, and why
	Hosts    []string `json:"hosts,omitempty"`   // whose answers these are; .example.com is any host under it
	Zone     string   `json:"zone,omitempty"`    // in which the upstream's day ends
	ByMethod bool     `json:"by_method,omitempty"`
	Rules    []Rule   `json:"rules"`
}

// Origin says where a dialect's facts come from, for people.
func (d *Dialect) Origin() string {
	origin := d.Source
	if d.Read != "" {
		origin += ", read " + d.Read
	}
	if d.From == "" {
		return origin
	}
	if d.Read == "" {
		return origin + "; not read: from " + d.From
	}
	return origin + "; from " + d.From
}

// loadDialects reads all dialects, once. Every test reads them, so that a
// malformed one is a panic.
var loadDialects = sync.OnceValue(func() (all []*Dialect) {
	files, err := fs.Glob(dialectFiles, "dialects/*.json")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		data, err := dialectFiles.ReadFile(file)
		if err != nil {
			panic(err)
		}
		d, err := parseDialect(data)
		if err == nil && file != "dialects/"+d.Name+".json" {
			err = fmt.Errorf("names dialect %q", d.Name)
		}
		if err != nil {
			panic(fmt.Errorf("feedback: %s: %w", file, err))
		}
		all = append(all, d)
	}
	return all
})

func parseDialect(data []byte) (*Dialect, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	d := &Dialect{}
	if err := decoder.Decode(d); err != nil {
		return nil, err
	}
	if d.Source == "" || d.Read == "" && d.From == "" {
		return nil, errors.New("name the source, and the day on which it was read or where the facts are from")
	}
	for i := range d.Rules {
		d.Rules[i].At = fmt.Sprintf("%s %d", d.Name, i+1)
		if err := d.Rules[i].Check(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	return d, nil
}

// Dialects returns the dialects that New accepts, sorted by name.
func Dialects() []*Dialect { return loadDialects() }

// Names returns the names of the dialects, sorted.
func Names() []string {
	var names []string
	for _, d := range Dialects() {
		names = append(names, d.Name)
	}
	return names
}

// dialectNamed returns the dialect of a name, or nil.
func dialectNamed(name string) *Dialect {
	all := Dialects()
	if i := slices.IndexFunc(all, func(d *Dialect) bool { return d.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// SaysCost reports whether answers in the named dialect may say what a
// call cost.
func SaysCost(name string) bool {
	d := dialectNamed(name)
	return d != nil && slices.ContainsFunc(d.Rules, func(r Rule) bool { return len(r.Cost) > 0 })
}

// ForHosts returns the name of the dialect that the upstream at these hosts
// speaks, or "generic".
func ForHosts(hosts []string) string {
	for _, d := range Dialects() {
		for _, known := range d.Hosts {
			if slices.ContainsFunc(hosts, func(host string) bool { return isAt(host, known) }) {
				return d.Name
			}
		}
	}
	return generic
}

// isAt reports whether a host is the known one, or under it if known begins
// with a dot.
func isAt(host, known string) bool {
	host, _, _ = strings.Cut(strings.ToLower(host), ":")
	return host == known || known[0] == '.' && strings.HasSuffix(host, known)
}

const generic = "generic"
