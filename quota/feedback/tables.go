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
	Errors       struct {            // of an answer with status 200
		Keys   []string `json:"keys"`   // of what is an error
		Codes  []string `json:"codes"`  // of what is one if its value is
		Values []string `json:"values"` // such values; numbers of errors aside
		Beside []string `json:"beside"` // of what an error has beside it; more is content
		About  []string `json:"about"`  // parts of such keys
	} `json:"errors"`
	Headers struct {
		AboutLimit []string  `json:"about_limit"` // parts of the names of limits
		Roles      roleTable `json:"roles"`
		Units      wordTable `json:"units"`
		Spans      wordTable `json:"spans"`
		Joined     []string  `json:"joined"`  // words of several words, and the word for them
		Fillers    []string  `json:"fillers"` // words that say nothing
	} `json:"headers"`
}

func parseCommon(data []byte) (t commonTables) {
	if err := json.Unmarshal(data, &t); err != nil { // every test reads them
		panic(err)
	}
	return t
}

// wordTable has a duration for words, and roleTable the role of a header. The
// file has words for each: {"1m": ["min", "minute"]}.
type (
	wordTable map[string]time.Duration
	roleTable map[string]headerRole
)

// UnmarshalJSON reads words by durations.
func (t *wordTable) UnmarshalJSON(data []byte) (err error) {
	*t, err = byWord(data, time.ParseDuration)
	return err
}

// UnmarshalJSON reads words by roles.
func (t *roleTable) UnmarshalJSON(data []byte) (err error) {
	*t, err = byWord(data, func(name string) (headerRole, error) {
		return headerRole(slices.Index(roleNames, name)), nil
	})
	return err
}

func byWord[V any](data []byte, parse func(string) (V, error)) (values map[string]V, err error) {
	var file map[string][]string
	err, values = json.Unmarshal(data, &file), map[string]V{}
	for text, words := range file {
		for _, word := range words {
			if values[word], err = parse(text); err != nil {
				return nil, err
			}
		}
	}
	return values, err
}

// pattern returns an expression of the tables.
func pattern(name string) *regexp.Regexp {
	text := strings.Join(common.Patterns[name], "|")
	for other, alternatives := range common.Patterns {
		text = strings.ReplaceAll(text, "{"+other+"}", strings.Join(alternatives, "|"))
	}
	return regexp.MustCompile(text)
}
