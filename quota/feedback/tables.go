package feedback

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"
)

// commonFile holds what upstreams have in common: the words of messages, of
// names of headers, and of fields.
//
//go:embed common.json
var commonFile []byte

// common is commonFile.
var common = parseCommon(commonFile)

type commonTables struct {
	MessagePaths []string            `json:"message_paths"` // where error documents have their message
	WaitFields   wordTable           `json:"wait_fields"`   // by the unit of a number in them
	Units        wordTable           `json:"units"`
	Patterns     map[string][]string `json:"patterns"` // expressions by alternatives; {name} is another one
	Headers      struct {
		Roles   roleTable `json:"roles"`
		Units   wordTable `json:"units"`
		Spans   wordTable `json:"spans"`
		Joined  []string  `json:"joined"`  // words of several words, and the word for them
		Fillers []string  `json:"fillers"` // words that say nothing
	} `json:"headers"`
}

func parseCommon(data []byte) (t commonTables) {
	if err := json.Unmarshal(data, &t); err != nil { // every test reads them
		panic(err)
	}
	return t
}

// wordTable has a duration for words. In the file, it has words for durations.
type wordTable map[string]time.Duration

// UnmarshalJSON reads {"1m": ["min", "minute"]}.
func (t *wordTable) UnmarshalJSON(data []byte) error {
	var file map[string][]string
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	*t = wordTable{}
	for text, words := range file {
		length, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		for _, word := range words {
			(*t)[word] = length
		}
	}
	return nil
}

// roleTable has the role of a header for words.
type roleTable map[string]headerRole

// UnmarshalJSON reads {"left": ["remaining", "available"]}.
func (t *roleTable) UnmarshalJSON(data []byte) error {
	var file map[string][]string
	if err := json.Unmarshal(data, &file); err != nil {
		return err
	}
	*t = roleTable{}
	for name, words := range file {
		for _, word := range words {
			(*t)[word] = headerRole(slices.Index(roleNames, name))
		}
	}
	return nil
}

// pattern returns an expression of the tables.
func pattern(name string) *regexp.Regexp {
	text := strings.Join(common.Patterns[name], "|")
	for other, alternatives := range common.Patterns {
		text = strings.ReplaceAll(text, "{"+other+"}", strings.Join(alternatives, "|"))
	}
	return regexp.MustCompile(text)
}
