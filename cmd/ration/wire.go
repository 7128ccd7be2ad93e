package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The bounds of one answer of the upstream. A page of 50 videos has some 500
// KB at the most, and comes in a second.
const (
	maxAnswer     = 16 << 20
	maxAnswerTime = time.Minute
)

// wire is net/http's transport with bounds on what one answer may take.
func wire() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = 30 * time.Second
	t.MaxResponseHeaderBytes = 1 << 20
	t.MaxIdleConnsPerHost = 16
	return &bounded{t}
}

// bounded bounds the time and the size of an answer, its body included.
type bounded struct{ base http.RoundTripper }

var errSlow = fmt.Errorf("the upstream's answer took more than %s", maxAnswerTime)

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), maxAnswerTime, errSlow)
	resp, err := b.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswer, ctx: ctx, cancel: cancel}
	return resp, nil
}

// Unwrap returns the base, to which every request goes once.
func (b *bounded) Unwrap() http.RoundTripper { return b.base }

type boundedBody struct {
	io.ReadCloser
	left   int64
	ctx    context.Context
	cancel func()
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the upstream's answer has more than %d MB", maxAnswer>>20)
	}
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *boundedBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

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
	if len(secret) < 4 || a.concealed(secret) == "[hidden]" { // too short, it would take words apart; or known
		return
	}
	hide := strings.NewReplacer(hidden(secret)...)
	a.stdout, a.stderr = redactor{a.stdout, hide}, redactor{a.stderr, hide}
}

// hidden returns what a strings.Replacer replaces to hide a secret: the secret
// as it is, and as JSON, Go's quotes, a URL or a visibleWriter write it.
func hidden(secret string) (pairs []string) {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:], visible(secret)}
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
