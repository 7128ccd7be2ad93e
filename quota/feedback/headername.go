package feedback

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// headerRole is what a header of the common families says.
type headerRole uint8

const (
	noRole headerRole = iota
	maxRole
	leftRole
	usedRole
	resetRole
	windowRole
	retryRole
	costRole
)

var roleNames = []string{"", "max", "left", "used", "reset", "window", "retry", "cost"}

// headerName is what the name of a header says.
type headerName struct {
	role   headerRole
	unit   time.Duration // of a number; 0 if the name does not say
	span   time.Duration
	bucket string
	family string // the limit that it belongs to
}

// nameCache holds what names of headers say: the names of one upstream are few.
// Its map is replaced, not changed; of two at once, one is parsed again later.
type nameCache struct {
	names atomic.Pointer[map[string]*headerName]
}

const maxNames = 500

// parse returns what a name says, or nil if that is nothing.
func (c *nameCache) parse(name string) *headerName {
	if names := c.names.Load(); names != nil {
		if known, ok := (*names)[name]; ok {
			return known
		}
	}
	var parsed *headerName
	if h := parseHeaderName(name); h.role != noRole {
		parsed = &h
	}
	more := map[string]*headerName{}
	if names := c.names.Load(); names != nil {
		more = maps.Clone(*names)
	}
	if len(more) < maxNames {
		more[name] = parsed
		c.names.Store(&more)
	}
	return parsed
}

var joinedWords = strings.NewReplacer(common.Headers.Joined...)

// parseHeaderName reads the name of a header by its words.
func parseHeaderName(name string) (h headerName) {
	text := joinedWords.Replace(strings.ToLower(strings.ReplaceAll(name, "_", "-")))
	isIn := func(word string) bool { return strings.Contains(text, word) }
	aboutLimit := slices.ContainsFunc(common.Headers.AboutLimit, isIn)
	h.role = noRole
	var rest []string
	for _, word := range strings.Split(strings.TrimPrefix(text, "x-"), "-") {
		role, unit := common.Headers.Roles[word], common.Headers.Units[word]
		span := time.Duration(0)
		if role == noRole && unit == 0 {
			span = headerSpan(strings.TrimSuffix(word, "limit"))
		}
		h.role = max(h.role, role)
		switch {
		case role == costRole && !aboutLimit && !strings.Contains(text, "request"):
			return headerName{}
		case unit > 0 && h.role >= resetRole:
			h.unit = unit
		case span > 0:
			h.span = span
		case role == noRole && unit == 0 && !slices.Contains(common.Headers.Fillers, word):
			rest = append(rest, word)
		}
	}
	isBare := h.role == noRole && len(rest) == 0
	if isBare && aboutLimit && strings.HasPrefix(text, "x-") {
		h.role = maxRole // X-Rate-Limit: 700
	}
	isOfLimit := h.role == retryRole || h.role == costRole || aboutLimit
	if isOther := !isOfLimit && h.span == 0; isOther || strings.HasSuffix(text, "-policy") {
		return headerName{}
	}
	h.bucket = strings.Join(rest, "-")
	h.family = h.bucket + " " + h.span.String()
	return h
}

// headerSpan returns the window that a word names: daily, 24hour, 15m.
func headerSpan(word string) time.Duration {
	if span, ok := common.Headers.Spans[word]; ok {
		return span
	}
	if span, ok := unitNamed(word); ok {
		return span
	}
	span, _ := parseDuration(word)
	return span
}
