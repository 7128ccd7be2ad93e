package feedback

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// counted is what limits of calls count, or over what.
const counted = `(?:requests?|calls?|quer(?:y|ies)|usage|api|daily|hourly|weekly|monthly|concurrent|complexity|per (?:second|minute|hour|day|month))`

// What messages say, in any upstream's words.
var (
	// timeIn matches a time or a wait within a text.
	timeIn = regexp.MustCompile(`(?i)\d{4}-\d\d-\d\d(?:(?:T| +at +| +)\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?)?` +
		`|[a-z]{3}, \d{1,2} [a-z]{3} \d{4} \d\d:\d\d:\d\d GMT|\b\d\d?:\d\d:\d\d\b` +
		`|\d+(?:\.\d+)?\s*(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)\b(?:(?:,|\s|and)*\d+(?:\.\d+)?\s*(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hours?)\b)*` +
		`|\d+(?:\.\d+)?(?:ms|s|m|h|d)(?:\d+(?:\.\d+)?(?:ms|s|m|h))*\b|\b1\d{9}\b`)
	// hint matches the words before the time at which calls are welcome again.
	// "in under an hour" is no such time.
	hint = regexp.MustCompile(`(?i)\b(?:retry|retrying|retried|again|wait|waiting|reset|resets|resetting|access|return|returns|available|renew\w*|resume\w*|expires?|lifted|until|blocked|banned|locked)` +
		`(?: again| after| in| at| on| for| until| within| approximately| about|:|=| is)*[ :=]*["']?(?:` + timeIn.String()[4:] + `)`)

	// period matches the window of a limit. Words are separate: perDay is
	// "per day".
	period = regexp.MustCompile(`\b(?:per|every|each|within|with in|in|last|past|this|/) ?(?:a |an |the )?(?:last |past )?['(]?(\d{1,5})?[')]? ?-?(second|sec|minute|min|hour|hr|day|week|month)s?\b` +
		`|\b(second|minute|hour|day|dai|week|month)ly\b|\b(second|minute|hour|day|week|month) (?:rate )?(?:limit|quota|cap)\b|/ ?(second|sec|minute|min|hour|day|month|s|m|h|d)\b` +
		`|\b(24)[ -]?(?:h|hours?)\b|\b(today)\b|\b(qps|rps|qpm|rpm|tpm|rpd|qpd|tpd)\b`)
	pair   = regexp.MustCompile(`\b(\d{1,12}) ?(?:/|of|out of) ?(\d{1,12})\b`)
	atOnce = regexp.MustCompile(`concurren|simultaneous|in[- ]flight|in parallel|parallel request|too many (?:open )?connections|at the same time|overload|server is busy|being (?:accessed|modified) by another|lock[_ ]timeout|maxlag`)

	// limited matches an error about a limit of calls, and not one about the size
	// of a page or a file.
	limited = regexp.MustCompile(`rate[ _-]?limit|too[ _]?many[ _]?(?:requests|calls|queries)|throttl|usage[ -]?cap|slow ?down|\btoo fast\b|too frequent|resource[_ ]exhausted` +
		`|\bquotas?\b.{0,60}\b(?:exceeded|exceeds?|exhausted|reached|hit|spent|used up|depleted)\b|\b(?:exceeded|exhausted|reached|out of|over)\b.{0,60}\bquotas?\b` +
		`|\b` + counted + `\b.{0,30}\b(?:limit|budget|allowance|cap)s?\b.{0,60}\b(?:exceeded|exhausted|reached|hit|spent)\b` +
		`|\b(?:exceeded|exhausted|reached|hit|out of)\b.{0,60}\b` + counted + `\b.{0,30}\b(?:limit|budget|allowance|cap)s?\b` +
		`|credits?\b.{0,30}\b(?:exhausted|used up|depleted)|over (?:the |your )?(?:account|request|query) limit|request limit|quota_?exceeded`)
	quoted = regexp.MustCompile(`"[^"]*"|'[^']{8,}'`)
	camel  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// words puts a text into the form that these expressions match: lower case,
// with a space for underscores and between the words of camelCase.
func words(text string) string {
	return strings.ToLower(strings.ReplaceAll(camel.ReplaceAllString(text, "$1 $2"), "_", " "))
}

// readHint returns the wait that a message asks for, such as that of "try again
// in 7m12s" and "Retry after 2026-11-20T12:00:00Z".
func readHint(texts []string, now clock) (m moment, ok bool) {
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
	for _, text := range texts {
		for _, clause := range spentClauses(words(text)) {
			if atOnce.MatchString(clause) {
				return true
			}
		}
	}
	return false
}

// saysLimited reports whether a text is about a limit. Texts with quotes may
// hold the caller's own words.
func saysLimited(texts []string) bool {
	for _, text := range texts {
		if limited.MatchString(words(quoted.ReplaceAllString(text, ""))) {
			return true
		}
	}
	return false
}

// waitNames are the names of fields that hold a wait or the time of a reset, in
// lower case without separators, and the unit of a number in them.
var waitNames = map[string]time.Duration{
	"retryafter": 0, "retryafterseconds": 0, "retryaftersec": 0, "retryaftersecs": 0, "retryafterms": time.Millisecond, "retryaftermilliseconds": time.Millisecond,
	"retryin": 0, "retryinseconds": 0, "retrydelay": 0, "retryat": 0, "resetinxseconds": 0, "resetinseconds": 0, "resetin": 0, "resetafter": 0, "resetat": 0, "resetsat": 0,
	"resettime": 0, "resetdate": 0, "waitseconds": 0, "waittime": 0, "secondsuntilreset": 0, "timetoreset": 0, "backoffseconds": 0, "backoff": 0, "nextresettime": 0,
	"estimatedtimetoregainaccess": time.Minute, "cooldownseconds": 0, "availableat": 0, "unblockedat": 0, "waituntil": 0,
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

// readField returns the longest wait among the fields of a document that have
// such a name.
func readField(v any, now clock, depth int) (longest moment, name string) {
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
			unit, known := waitNames[strings.ToLower(separators.Replace(key))]
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
