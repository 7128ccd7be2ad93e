package client

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
)

const (
	// hidden replaces a secret.
	hidden = "[hidden]"
	// cleaned is what package feedback writes in place of what looks like a key.
	cleaned = "REDACTED"
	// minSecret is the fewest bytes of a secret: less would take words apart.
	minSecret = 6
)

var (
	secretHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
		"Cookie"}
	secretParameters = []string{"key", "api_key", "apikey", "access_token", "token", "client_secret", "signature"}
)

// hidingSecrets returns a function that reads answers as read does, without
// secrets in the reason: those of the request, which an upstream may repeat,
// those of costs.yaml, and those that Options.Redact knows.
func (c *Client) hidingSecrets(
	read func(quota.Call, *http.Response) quota.Verdict,
) func(quota.Call, *http.Response) quota.Verdict {
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		v := read(call, resp)
		if v.Reason == "" {
			return v
		}
		v.Reason = hide(v.Reason, append(c.credentials(call.Account, resp.Request), secretsOf(resp.Request)...))
		if c.options.Redact != nil {
			v.Reason = c.options.Redact(v.Reason)
		}
		return v
	}
}

// credentials returns the secrets for which costs.yaml has a credential: as
// they are in the request, and as they are in the file by now, which a program
// that reports the answer to a request of its own may have read. A file that
// cannot be read is skipped.
func (c *Client) credentials(account string, r *http.Request) (all []string) {
	if c.table == nil {
		return nil
	}
	for _, u := range c.table.Upstreams() {
		at := u.Credential
		if at == nil || u.Account != account {
			continue
		}
		if data, err := files.ReadSecret(at.File); err == nil {
			all = append(all, string(bytes.TrimSpace(data)))
		}
		switch {
		case r == nil:
		case at.Query != "" && r.URL != nil:
			all = append(all, parameterValues(r.URL.RawQuery, []string{at.Query})...)
		case at.Header != "":
			for _, value := range r.Header.Values(at.Header) {
				all = append(all, strings.TrimPrefix(value, at.Prefix))
			}
		}
	}
	return all
}

// secretsOf returns the secrets in the usual headers and parameters of
// a request, which may be nil.
func secretsOf(r *http.Request) (all []string) {
	if r == nil {
		return nil
	}
	for _, name := range secretHeaders {
		for _, value := range r.Header.Values(name) {
			if name == "Cookie" {
				all = append(all, cookieValues(value)...)
			} else {
				all = append(all, authorization(value)...)
			}
		}
	}
	if r.URL != nil {
		all = append(all, parameterValues(r.URL.RawQuery, secretParameters)...)
		if password, ok := r.URL.User.Password(); ok {
			all = append(all, password)
		}
	}
	return all
}

// authorization returns the secrets in a header: what follows the scheme, or
// all of it if there is none, and the password of the scheme Basic.
func authorization(value string) []string {
	scheme, secret, found := strings.Cut(strings.TrimSpace(value), " ")
	if !found {
		return []string{scheme}
	}
	secret = strings.TrimSpace(secret)
	if strings.EqualFold(scheme, "Basic") {
		if text, err := base64.StdEncoding.DecodeString(secret); err == nil {
			_, password, _ := strings.Cut(string(text), ":")
			return []string{secret, password}
		}
	}
	return []string{secret}
}

func cookieValues(header string) (all []string) {
	for pair := range strings.SplitSeq(header, ";") {
		if _, value, found := strings.Cut(pair, "="); found {
			all = append(all, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return all
}

// parameterValues returns the values of the named parameters of a query, as
// they are written and decoded.
func parameterValues(query string, names []string) (all []string) {
	for _, pair := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
		key, text, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(key)
		if err != nil || !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
			continue
		}
		all = append(all, text)
		if value, err := url.QueryUnescape(text); err == nil {
			all = append(all, value)
		}
	}
	return all
}

// hide returns text with [hidden] in place of each secret, also of one that a
// URL escapes, and of the rest of one whose other part was cut off or cleaned.
func hide(text string, secrets []string) string {
	var forms []string
	for _, secret := range secrets {
		forms = append(forms, secret, url.QueryEscape(secret), url.PathEscape(secret))
	}
	forms = slices.DeleteFunc(forms, func(form string) bool { return len(form) < minSecret })
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, hidden)
	}
	parts := strings.Split(text, cleaned)
	for i := range parts {
		for _, form := range forms {
			parts[i] = hideEnds(parts[i], form, i > 0)
		}
	}
	return strings.Join(parts, cleaned)
}

// hideEnds hides the beginning of a secret at the end of a text and, if
// atStart is set, the end of one at its start.
func hideEnds(text, secret string, atStart bool) string {
	for n := min(len(secret)-1, len(text)); n >= minSecret; n-- {
		if kept, found := strings.CutSuffix(text, secret[:n]); found {
			text = kept + hidden
			break
		}
	}
	for n := min(len(secret)-1, len(text)); atStart && n >= minSecret; n-- {
		if kept, found := strings.CutPrefix(text, secret[len(secret)-n:]); found {
			return hidden + kept
		}
	}
	return text
}
