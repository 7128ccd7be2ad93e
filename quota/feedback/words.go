package feedback

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// What messages say, in any upstream's words.
var (
	timeIn  = pattern("time")    // a time or a wait within a text
	hint    = pattern("hint")    // the words before the time at which calls are welcome again
	period  = pattern("period")  // the window of a limit; words are separate: perDay is "per day"
	pair    = pattern("pair")    // how much is used, and of how much
	atOnce  = pattern("at_once") // too many calls at the same time
	limited = pattern("limited") // a limit of calls
	others  = pattern("other_limits")
	quoted  = pattern("quoted")
	camel   = pattern("camel")
)

// words puts a text into the form that these expressions match: lower case,
// with a space for underscores and between the words of camelCase.
func words(text string) string {
	return strings.ToLower(strings.ReplaceAll(camel.ReplaceAllString(text, "$1 $2"), "_", " "))
}

// readHint returns the wait that a message asks for, such as that of "try again
// in 7m12s" and "Retry after 2026-11-20T12:00:00Z".
func readHint(texts []string, now func() time.Time) (m moment, ok bool) {
	for _, text := range texts {
		for _, found := range hint.FindAllString(text, 2) {
			if m, ok = parseMoment(timeIn.FindString(found), now, 0); ok && (!m.date || m.wait > 0) {
				return m, true
			}
		}
	}
	return moment{}, false
}

// periodsIn returns the shortest window that the texts name, or 0. If a text
// says how much of several limits is used, only what follows a spent one
// counts.
func periodsIn(texts []string) (shortest time.Duration) {
	for _, text := range texts {
		for _, clause := range spentClauses(words(text)) {
			for _, parts := range period.FindAllStringSubmatch(clause, 8) {
				if span := spanIn(parts[1:]); span > 0 && (shortest == 0 || span < shortest) {
					shortest = span
				}
			}
		}
	}
	return shortest
}

// spentClauses returns the parts of a text about limits of which all is used,
// such as 61/60 queries, or the whole text if it has no such part.
func spentClauses(text string) (clauses []string) {
	found := pair.FindAllStringSubmatchIndex(text, 8)
	for i, at := range found {
		used, _ := strconv.Atoi(text[at[2]:at[3]])
		most, _ := strconv.Atoi(text[at[4]:at[5]])
		end := len(text)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		if used >= most {
			clauses = append(clauses, text[at[1]:end])
		}
	}
	if len(clauses) == 0 {
		return []string{text}
	}
	return clauses
}

// spanIn returns the window that the groups of period stand for.
func spanIn(groups []string) time.Duration {
	n := time.Duration(1)
	for i, word := range groups {
		switch {
		case word == "":
		case i == 0:
			count, _ := strconv.Atoi(word)
			n = time.Duration(max(1, count))
		case word == "24", word == "today", word == "dai", strings.HasSuffix(word, "pd"):
			return day
		case word == "qps", word == "rps":
			return time.Second
		case strings.HasSuffix(word, "pm"):
			return time.Minute
		default:
			unit, _ := unitNamed(word)
			return n * unit
		}
	}
	return 0
}

// saysAtOnce reports whether the texts are about calls at the same time and not
// about a limit that is named as spent.
func saysAtOnce(texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		return slices.ContainsFunc(spentClauses(words(text)), atOnce.MatchString)
	})
}

// saysLimited reports whether a text is about a limit. Texts with quotes may
// hold the caller's own words.
func saysLimited(texts []string) bool {
	for _, text := range texts {
		text = words(quoted.ReplaceAllString(text, ""))
		if limited.MatchString(others.ReplaceAllString(text, "")) {
			return true
		}
	}
	return false
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// readField returns the longest wait among the fields of a document that have
// such a name.
func readField(v any, now func() time.Time, depth int) (longest moment, name string) {
	if depth > maxDepth {
		return moment{}, ""
	}
	keep := func(m moment, from string) {
		if from != "" && (name == "" || m.wait > longest.wait) {
			longest, name = m, from
		}
	}
	switch v := v.(type) {
	case []any:
		for _, item := range firstItems(v) {
			keep(readField(item, now, depth+1))
		}
	case map[string]any:
		for _, key := range firstItems(sortedKeys(v)) {
			unit, known := common.WaitFields[strings.ToLower(separators.Replace(key))]
			if text, isScalar := scalar(v[key]); known && isScalar {
				if m, ok := parseMoment(text, now, unit); ok {
					keep(m, key)
				}
			}
			keep(readField(v[key], now, depth+1))
		}
	}
	return longest, name
}
