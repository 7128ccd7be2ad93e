package feedback

import (
	"maps"
	"strconv"
	"strings"
	"sync"
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

// headerName is what the name of a header says.
type headerName struct {
	role   headerRole
	unit   time.Duration // of a number; 0 if the name does not say
	span   time.Duration
	bucket string
	family string // the limit that it belongs to
}

// nameCache holds what names of headers say: the names of one upstream are few.
// Its map is replaced, not changed.
type nameCache struct {
	byRules map[string]bool
	names   atomic.Pointer[map[string]*headerName]
	mu      sync.Mutex
}

const maxNames = 500

// parse returns what a name says, or nil if that is nothing.
func (c *nameCache) parse(name string) *headerName {
	names := c.names.Load()
	if names != nil {
		if known, ok := (*names)[name]; ok {
			return known
		}
	}
	var parsed *headerName
	if h := parseHeaderName(name); h.role != noRole && !c.byRules[name] {
		parsed = &h
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	more := map[string]*headerName{}
	if names = c.names.Load(); names != nil {
		maps.Copy(more, *names)
	}
	if len(more) < maxNames {
		more[name] = parsed
		c.names.Store(&more)
	}
	return parsed
}

var joinedWords = strings.NewReplacer("rate-limit", "ratelimit", "retry-after", "retryafter", "retry-in", "retryafter", "24-hour", "24hour", "used-currentrequest", "requestcost", "request-charge", "requestcost")

// parseHeaderName reads the name of a header by its words.
func parseHeaderName(name string) (h headerName) {
	text := joinedWords.Replace(strings.ToLower(strings.ReplaceAll(name, "_", "-")))
	aboutLimit := strings.Contains(text, "limit") || strings.Contains(text, "quota") || strings.Contains(text, "throttl")
	h.role = noRole
	var rest []string
	for _, word := range strings.Split(strings.TrimPrefix(text, "x-"), "-") {
		role, unit, span := headerWord(word)
		h.role = max(h.role, role)
		switch {
		case role == costRole && !aboutLimit && !strings.Contains(text, "request"):
			return headerName{}
		case unit > 0 && h.role >= resetRole:
			h.unit = unit
		case span > 0:
			h.span = span
		case role == noRole && unit == 0 && !fillers[word]:
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

var fillers = map[string]bool{"ratelimit": true, "rate": true, "per": true, "this": true, "api": true, "app": true, "user": true, "the": true, "calls": true, "call": true, "after": true,
	"in": true, "at": true, "http": true, "time": true, "timestamp": true, "epoch": true, "until": true, "utc": true, "next": true, "": true, "project": true, "shop": true, "delta": true, "count": true}

// headerWord returns what one word of a name says.
func headerWord(word string) (role headerRole, unit, span time.Duration) {
	switch word {
	case "limit", "max", "maximum", "total", "allowed", "quota", "capacity", "allotted":
		return maxRole, 0, 0
	case "remaining", "left", "available", "remain":
		return leftRole, 0, 0
	case "used", "usage", "consumed", "current":
		return usedRole, 0, 0
	case "reset", "resets", "resetafter", "resettime", "resetat", "expires":
		return resetRole, 0, 0
	case "window", "interval", "period":
		return windowRole, 0, 0
	case "retryafter":
		return retryRole, 0, 0
	case "cost", "requestcost":
		return costRole, 0, 0
	case "ms", "milliseconds", "millis":
		return noRole, time.Millisecond, 0
	case "seconds":
		return noRole, time.Second, 0
	}
	return noRole, 0, headerSpan(strings.TrimSuffix(word, "limit"))
}

// headerSpan returns the window that a word names: daily, 24hour, 15m.
func headerSpan(word string) time.Duration {
	switch word {
	case "daily", "today", "24hour", "24h":
		return day
	case "hourly":
		return time.Hour
	case "minutely":
		return time.Minute
	case "secondly":
		return time.Second
	case "monthly":
		return month
	case "", "m", "s", "h", "d", "ms":
		return 0
	}
	digits := len(word) - len(strings.TrimLeft(word, "0123456789"))
	n := 1
	if digits > 0 {
		n, _ = strconv.Atoi(word[:min(digits, 6)])
	}
	unit, ok := unitNamed(word[digits:])
	if !ok || n == 0 {
		return 0
	}
	return time.Duration(n) * unit
}
