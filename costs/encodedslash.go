package costs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// encodedSlash is how Google and GitLab write a slash within one segment, such
// as the path of a project that is its id.
var encodedSlash = regexp.MustCompile(`%2[Ff]`)

// keptSlash stands for an encoded slash that stays within its segment. No
// literal of a route may contain it.
const keptSlash = "|"

// keepSlashes returns a path with keptSlash in place of each encoded slash, so
// that the segment that holds it stays one, and whether there is any.
func keepSlashes(raw string) (whole string, has bool) {
	whole = encodedSlash.ReplaceAllString(raw, keptSlash)
	return whole, whole != raw
}

// isOneMethod reports whether every reading of a path with encoded slashes
// leads to the method of the path as it is written, or to one that costs no
// more. whole is the path as keepSlashes returns it: its readings must all
// match the same pattern. A server that decodes the slashes sees another path.
// It may match no route, since the upstream has no method there, or a route
// that costs the same, but none that costs more.
func (s *site) isOneMethod(verb, raw, whole string) bool {
	found, name := s.findPattern(verb, raw, false)
	isSame := func(reading string) bool {
		other, otherName := s.findPattern(verb, reading, true)
		return other == found && strings.EqualFold(name, otherName)
	}
	method := found.methodOf(name)
	isSameOrNone := func(reading string) bool {
		for _, loose := range []bool{false, true} {
			other, otherName := s.findPattern(verb, reading, loose)
			isByField := other != nil && other.to.isByField()
			switch {
			case other == nil, isByField && other == found:
				continue
			case isByField:
				return false
			}
			read := other.methodOf(otherName)
			isRefused := s.cost(read) == 0
			isDearer := isRefused || s.cost(read) > s.cost(method)
			if read != method && isDearer {
				return false
			}
		}
		return true
	}
	return allReadings(whole, isSame) && allReadings(encodedSlash.ReplaceAllString(raw, "/"), isSameOrNone)
}

// methodOf returns the method of a request that matches p, where name is the
// text of the capturing segment.
func (p *pattern) methodOf(name string) string {
	if p.to == nil {
		return name
	}
	return p.to.method
}

// maxReadings is the most ways in which a path may be read. A path with more
// is refused; an ordinary one has fewer than ten.
const maxReadings = 128

// steps are what servers, proxies and caches do to a path, in any order and any
// number of times.
var steps = []func(string) string{decodePath, cutQuery, cutSegmentParameters, cutParameters, splitBackslashes,
	trimSegments, cleanSlashes}

// allReadings reports whether accept returns true for every reading of a path.
// It returns false if a reading has a segment that hasDotPart reports, or bytes
// that hasUnsafeBytes reports.
func allReadings(reading string, accept func(string) bool) bool {
	readings := []string{reading}
	for i := 0; i < len(readings); i++ {
		reading := readings[i]
		if hasDotPart(reading) || hasUnsafeBytes(reading) || !accept(reading) {
			return false
		}
		for _, step := range steps {
			if next := step(reading); !slices.Contains(readings, next) {
				readings = append(readings, next)
			}
		}
		if len(readings) > maxReadings {
			return false
		}
	}
	return true
}

// hasUnsafeBytes reports whether a path has bytes at which a server may end it
// or which it may leave out: control characters and malformed UTF-8.
func hasUnsafeBytes(reading string) bool {
	return !utf8.ValidString(reading) || strings.ContainsFunc(reading, unicode.IsControl)
}

// overlong matches an ASCII character encoded in more than one byte, which
// lenient servers decode: C0 AF is a slash.
var overlong = []string{"\xc0", "\xc1", "\xe0\x80", "\xe0\x81", "\xf0\x80\x80", "\xf0\x80\x81"}

// hasOverlong reports whether a path has an overlong ASCII character.
func hasOverlong(reading string) bool {
	for _, start := range overlong {
		for rest := reading; ; {
			_, after, found := strings.Cut(rest, start)
			if !found {
				break
			}
			if after != "" && !utf8.RuneStart(after[0]) {
				return true
			}
			rest = after
		}
	}
	return false
}

// decodePath decodes each percent-encoded byte, and leaves a malformed encoding
// as it is.
func decodePath(reading string) string {
	if strings.IndexByte(reading, '%') < 0 {
		return reading
	}
	decoded := make([]byte, 0, len(reading))
	for i := 0; i < len(reading); i++ {
		if reading[i] == '%' && i+2 < len(reading) {
			high, isHigh := hexDigit(reading[i+1])
			low, isLow := hexDigit(reading[i+2])
			if isHigh && isLow {
				decoded = append(decoded, high<<4|low)
				i += 2
				continue
			}
		}
		decoded = append(decoded, reading[i])
	}
	return string(decoded)
}

func hexDigit(c byte) (value byte, ok bool) {
	i := strings.IndexByte("0123456789abcdef", c|0x20)
	return byte(max(i, 0)), i >= 0 && c >= '0' // c|0x20 maps control bytes to digits
}

// cutQuery cuts a decoded query or fragment.
func cutQuery(reading string) string {
	if end := strings.IndexAny(reading, "?#"); end >= 0 {
		return reading[:end]
	}
	return reading
}

// cutSegmentParameters cuts the parameters after the ; of each segment.
func cutSegmentParameters(reading string) string {
	return eachSegment(reading, func(segment string) string {
		segment, _, _ = strings.Cut(segment, ";")
		return segment
	})
}

// cutParameters cuts all that follows the first ;.
func cutParameters(reading string) string {
	reading, _, _ = strings.Cut(reading, ";")
	return reading
}

func splitBackslashes(reading string) string { return strings.ReplaceAll(reading, `\`, "/") }

// trimSegments trims each segment as file systems do: blanks around it, and
// dots at its end.
func trimSegments(reading string) string {
	return eachSegment(reading, func(segment string) string {
		segment = strings.Trim(segment, blanks)
		if bare := strings.TrimRight(segment, "."+blanks); bare != "" {
			return bare
		}
		return segment
	})
}

// cleanSlashes removes empty segments and a final slash.
func cleanSlashes(reading string) string { return path.Clean("/" + reading) }

func eachSegment(reading string, edit func(string) string) string {
	segments := strings.Split(reading, "/")
	for i, segment := range segments {
		segments[i] = edit(segment)
	}
	return strings.Join(segments, "/")
}
