package engine

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// limitOf returns the budget's limit for a key.
func (b *Budget) limitOf(key string) int64 {
	if limit, ok := b.Keys[key]; ok && b.Coverage.ByKey {
		return limit
	}
	return b.Limit
}

// limitOf returns what a limit that a configuration has announced is for a key.
func (c *control) limitOf(key string) int64 {
	if limit, ok := c.keys[key]; ok {
		return limit
	}
	return c.Amounts.Units
}

// packKeys returns the budget's Keys as the text of its announced limit: each
// quoted, and then its limit.
func (b *Budget) packKeys() string {
	if b.packed == "" && len(b.Keys) > 0 {
		var text strings.Builder
		for _, key := range slices.Sorted(maps.Keys(b.Keys)) {
			text.WriteString(strconv.Quote(key) + strconv.FormatInt(b.Keys[key], 10))
		}
		b.packed = text.String()
	}
	return b.packed
}

// unpackKeys is the inverse of packKeys. What it cannot read it leaves out.
func unpackKeys(text string) map[string]int64 {
	var keys map[string]int64
	for text != "" {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return keys
		}
		key, _ := strconv.Unquote(quoted)
		digits, rest := text[len(quoted):], ""
		if end := strings.IndexByte(digits, '"'); end >= 0 {
			digits, rest = digits[:end], digits[end:]
		}
		limit, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return keys
		}
		if keys == nil {
			keys = map[string]int64{}
		}
		keys[key], text = limit, rest
	}
	return keys
}
