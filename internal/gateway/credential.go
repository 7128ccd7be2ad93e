package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/files"
)

// ReadCredential returns the secret of an upstream's credential, or "" for nil.
// It returns an error if other users may read the file, or if it does not hold
// one line of text.
func ReadCredential(c *costs.Credential) (string, error) {
	if c == nil {
		return "", nil
	}
	data, err := files.ReadSecret(c.File)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return "",
			fmt.Errorf("the upstream's credential: %w; write the secret into a file that only this user can read, "+
				"and name it in costs.yaml", err)
	}
	if err != nil {
		return "", fmt.Errorf("the upstream's credential: %w", err)
	}
	secret := string(bytes.TrimSpace(data))
	if secret == "" || strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("the upstream's credential: %s must hold the secret on one line and nothing else", c.File)
	}
	return secret, nil
}

// addCredential adds a secret to a request, in place of what it has there. It
// leaves the rest of the query as it is. Headers whose names have underscores
// in place of hyphens are the same to a server that reads them by CGI or WSGI.
func addCredential(r *http.Request, c *costs.Credential, secret string) {
	switch {
	case c == nil:
	case c.Query != "":
		query := withoutParameters(r.URL.RawQuery, func(name, _ string) bool { return name == c.Query })
		if query != "" {
			query += "&"
		}
		r.URL.RawQuery = query + url.QueryEscape(c.Query) + "=" + url.QueryEscape(secret)
	default:
		for name := range r.Header {
			if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), strings.ReplaceAll(c.Header, "_", "-")) {
				delete(r.Header, name)
			}
		}
		r.Header.Set(c.Header, c.Prefix+secret)
	}
}

// withoutCredential returns a URL without the query parameter in which an
// upstream repeats the target's credential, and with [hidden] in place of the
// secret where a parameter is a URL that has it. A parameter of the same name
// with another value is not ours.
func (t *target) withoutCredential(reference string) string {
	if t.credential == nil || t.credential.Query == "" {
		return reference
	}
	before, fragment, hasFragment := strings.Cut(reference, "#")
	before, query, hasQuery := strings.Cut(before, "?")
	isOurs := func(name, value string) bool { return name == t.credential.Query && value == t.secret }
	if kept := withoutParameters(query, isOurs); hasQuery && (kept != "" || query == "") {
		before += "?" + kept
	}
	if hasFragment {
		before += "#" + fragment
	}
	nested := url.QueryEscape(t.credential.Query + "=")
	return strings.ReplaceAll(before, nested+url.QueryEscape(url.QueryEscape(t.secret)), nested+"[hidden]")
}

// hide returns a text with [hidden] in place of the target's secret: errors of
// net/http quote what an upstream repeats.
func (t *target) hide(text string) string {
	if t.secret == "" {
		return text
	}
	return strings.NewReplacer(t.secret, "[hidden]", url.QueryEscape(t.secret), "[hidden]").Replace(text)
}

// withoutParameters returns a query without the parameters that drop reports,
// and otherwise unchanged. Some servers separate parameters with semicolons.
func withoutParameters(query string, drop func(name, value string) bool) string {
	var kept strings.Builder
	for rest := "&" + query; rest != ""; { // each pair with the separator before it
		end := 1 + strings.IndexAny(rest[1:], "&;")
		if end == 0 {
			end = len(rest)
		}
		key, text, _ := strings.Cut(rest[1:end], "=")
		name, err := url.QueryUnescape(key)
		value, _ := url.QueryUnescape(text)
		if err != nil || !drop(name, value) {
			kept.WriteString(rest[:end])
		}
		rest = rest[end:]
	}
	if kept.Len() == 0 {
		return ""
	}
	return kept.String()[1:]
}
