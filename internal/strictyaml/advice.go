package strictyaml

import (
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// Advice says what to write instead of an unknown name: the known one that was
// probably meant, or else a list of those that are known.
func Advice(name string, known []string) string {
	if meant := Meant(name, known); meant != "" {
		return "write " + meant
	}
	var distinct []string
	for _, word := range known {
		if !slices.Contains(distinct, word) {
			distinct = append(distinct, word)
		}
	}
	switch len(distinct) {
	case 0:
		return "there are none"
	case 1:
		return "write " + distinct[0]
	}
	return "write one of " + strings.Join(distinct, ", ")
}

// Meant returns the known name that was probably meant, or "" if there is none:
// one that differs in a few letters, or the only one with name as a prefix.
func Meant(name string, known []string) string {
	if len(name) < 3 { // nearly every short word is near
		return ""
	}
	if near := Nearest(name, known); near != "" {
		return near
	}
	meant := ""
	for _, word := range known {
		if strings.HasPrefix(strings.ToLower(word), strings.ToLower(name)) {
			if meant != "" {
				return ""
			}
			meant = word
		}
	}
	return meant
}

// FlowList returns words as a YAML list in one line, which is read as these
// texts: 5, true, 10:30 and {region} are in quotes.
func FlowList(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = FlowText(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// FlowText writes a word in YAML, in quotes if it would be read as anything
// else without them.
func FlowText(word string) string {
	var value any
	err := yaml.Unmarshal([]byte(word), &value)
	if err != nil || value != word || strings.ContainsAny(word, "{}[],#&*!|>'\"%@`:") {
		return strconv.Quote(word)
	}
	return word
}
