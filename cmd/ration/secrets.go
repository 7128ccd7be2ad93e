package main

import (
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
)

// redactor keeps secrets out of what is printed, wherever they came from: an
// upstream may say a key back in its error.
type redactor struct {
	out     io.Writer
	secrets *strings.Replacer
}

func (r redactor) Write(p []byte) (int, error) {
	if _, err := r.secrets.WriteString(r.out, string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// conceal keeps a secret out of all that is printed from now on.
func (a *app) conceal(secret string) {
	if len(secret) < 4 || concealed(a.stderr, secret) == "[hidden]" { // too short, it would take words apart; or known
		return
	}
	hide := strings.NewReplacer(hidden(secret)...)
	a.stdout, a.stderr = redactor{a.stdout, hide}, redactor{a.stderr, hide}
}

// concealed returns text without the secrets that are kept out of what out prints.
func concealed(out io.Writer, text string) string {
	for {
		r, ok := out.(redactor)
		if !ok {
			return text
		}
		text, out = r.secrets.Replace(text), r.out
	}
}

// hidden returns what a strings.Replacer replaces to hide a secret: the secret
// as it is, and as JSON, Go's quotes, a URL or a visibleWriter write it.
func hidden(secret string) (pairs []string) {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], terminal.Escape(secret)}
	if text, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(text[1:len(text)-1]))
	}
	quoted := strconv.Quote(secret)
	for _, form := range append(forms, quoted[1:len(quoted)-1]) {
		pairs = append(pairs, form, "[hidden]")
	}
	return pairs
}

// concealProxies keeps the credentials of proxies out of what is printed:
// net/http repeats the address of one that it cannot read.
func (a *app) concealProxies() {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		for _, address := range []string{a.getenv(name), a.getenv(strings.ToLower(name))} {
			at := strings.LastIndexByte(address, '@')
			if at < 0 {
				continue
			}
			credentials := address[:at]
			if _, rest, found := strings.Cut(credentials, "://"); found {
				credentials = rest
			}
			if _, password, found := strings.Cut(credentials, ":"); found {
				credentials = password
			}
			a.conceal(credentials)
			if plain, err := url.PathUnescape(credentials); err == nil {
				a.conceal(plain)
			}
		}
	}
}

// address is a word of a message that may be a URL.
var address = regexp.MustCompile(`[^\s"'<>()]*://[^\s"'<>()]*`)

// withoutSecrets returns a message with its URLs cut to what cannot be a
// secret: no userinfo, and nothing behind the path. An error of net/http
// repeats the URL of its request, and one of cobra what was typed.
func withoutSecrets(message string) string {
	return address.ReplaceAllStringFunc(message, func(word string) string {
		scheme, rest, _ := strings.Cut(word, "://")
		end, lower := len(rest), strings.ToLower(rest)
		for _, mark := range []string{"?", ";", "#", "&", "%3f", "%3b", "%23", "%26", "%25"} {
			if i := strings.Index(lower, mark); i >= 0 && i < len(rest)-1 { // the last one is punctuation
				end = min(end, i)
			}
		}
		at := strings.LastIndexByte(rest, '@')
		switch {
		case at >= end: // a mark in a password, or an @ behind the path
			return scheme + "://…"
		case end < len(rest):
			rest = rest[:end] + "…"
		}
		if at >= 0 {
			rest = "…" + rest[at:]
		}
		return scheme + "://" + rest
	})
}
