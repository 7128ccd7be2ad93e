package costs

import "strings"

// redact removes everything from a path or method that may be a secret: what
// follows a delimiter of parameters, plain or percent-encoded, what comes
// before an @, and long segments that mix letters and digits.
func redact(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	lower, end := strings.ToLower(text), len(text)
	for _, delimiter := range []string{";", "?", "#", "&", "=", "%3b", "%3f", "%23", "%26", "%3d", "%25", "@", "%40"} {
		if i := strings.Index(lower, delimiter); i >= 0 && i < end {
			if end = i; delimiter == "@" || delimiter == "%40" {
				end = strings.LastIndexByte(text[:i], '/') + 1
			}
		}
	}
	names := strings.Split(text[:end], "/")
	for i, name := range names {
		if maybeKey(name) {
			names[i] = "…"
		}
	}
	if end < len(text) {
		names = append(names[:len(names)-1], strings.TrimSuffix(names[len(names)-1], "…")+"…")
	}
	return strings.Join(names, "/")
}

// maybeKey reports whether a name looks like a key or token: no method and no
// part of a documented path has 20 characters with digits among letters, or 40
// of any kind.
func maybeKey(name string) bool {
	hasLetters := strings.ContainsFunc(name, func(r rune) bool { return r|0x20 >= 'a' && r|0x20 <= 'z' })
	hasDigits := strings.ContainsAny(name, "0123456789")
	if len(name) >= 20 && hasLetters && hasDigits {
		return true
	}
	return len(name) >= 40
}

// redactVerb returns a verb, if it is one: a URL may have been given in
// its place.
func redactVerb(verb string) string {
	if len(verb) > 16 || strings.Trim(verb, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-") != "" {
		return "…"
	}
	return verb
}
