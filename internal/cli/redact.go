package cli

import (
	"cmp"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Secrets are hidden in what is written, wherever they come from: an upstream
// may repeat a key in its error. The zero value has none. They are safe for
// concurrent use.
type Secrets struct {
	mu       sync.Mutex // of known
	known    []string
	replacer atomic.Pointer[strings.Replacer] // nil without secrets
}

// Hide replaces a secret with [hidden] from now on. It is a no-op for a secret
// that is hidden already, or that has less than four characters and would take
// words apart.
func (s *Secrets) Hide(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(secret) < 4 || s.Text(secret) == "[hidden]" {
		return
	}
	s.known = append(s.known, secret)
	slices.SortFunc(s.known, func(x, y string) int { return cmp.Compare(len(y), len(x)) }) // one may begin with another
	var pairs []string
	for _, one := range s.known {
		pairs = append(pairs, forms(one)...)
	}
	s.replacer.Store(strings.NewReplacer(pairs...))
}

// Text returns text without the secrets.
func (s *Secrets) Text(text string) string {
	if r := s.replacer.Load(); r != nil {
		return r.Replace(text)
	}
	return text
}

// Writer returns a writer to out that hides the secrets.
func (s *Secrets) Writer(out io.Writer) io.Writer { return writer{out, s} }

type writer struct {
	out     io.Writer
	secrets *Secrets
}

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.out, w.secrets.Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// forms returns the arguments of a strings.Replacer that hides a secret: as it
// is, and as JSON, Go's quotes, a URL or a cli.Writer write it.
func forms(secret string) (pairs []string) {
	all := []string{secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("", secret).String()[1:],
		Escape(secret)}
	if text, err := json.Marshal(secret); err == nil {
		all = append(all, string(text[1:len(text)-1]))
	}
	quoted := strconv.Quote(secret)
	for _, form := range append(all, quoted[1:len(quoted)-1]) {
		pairs = append(pairs, form, "[hidden]")
	}
	return pairs
}

// ProxyPasswords returns the passwords of the proxies that the environment
// names: net/http repeats the address of one that it cannot read.
func ProxyPasswords(getenv func(string) string) (secrets []string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		for _, address := range []string{getenv(name), getenv(strings.ToLower(name))} {
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
			secrets = append(secrets, credentials)
			if plain, err := url.PathUnescape(credentials); err == nil {
				secrets = append(secrets, plain)
			}
		}
	}
	return secrets
}

var (
	// address is a word of a message that may be a URL.
	address = regexp.MustCompile(`[^\s"'<>()]*://[^\s"'<>()]*`)
	// punctuation ends a word, and not its URL.
	punctuation = regexp.MustCompile("[,;:.!?#&\\]}`]+$")
	// plainLedger is the address of a ledger that has no place for a secret.
	plainLedger = regexp.MustCompile(
		`^(postgres(ql)?://([\w.-]+@)?|unix://)[^@?;#&%]*` +
			`(\?((schema|db|host|port|dbname|user)=([\w.,:/-]|%2F)*(&|$))+)?$`)
)

// RedactURLs returns a message with its URLs cut to what cannot be a
// secret: no userinfo, and nothing behind the path. An error of net/http
// repeats the URL of its request, and one of cobra what was typed. An address
// of a ledger keeps the parameters that name it.
func RedactURLs(message string) string {
	return address.ReplaceAllStringFunc(message, func(word string) string {
		scheme, rest, _ := strings.Cut(word, "://")
		mark := punctuation.FindString(rest)
		rest = strings.TrimSuffix(rest, mark)
		if whole := scheme + "://" + rest; plainLedger.MatchString(whole) {
			return whole + mark
		}
		end, lower := len(rest), strings.ToLower(rest)
		for _, delimiter := range []string{"?", ";", "#", "&", "%3f", "%3b", "%23", "%26", "%25"} {
			if i := strings.Index(lower, delimiter); i >= 0 {
				end = min(end, i)
			}
		}
		at := strings.LastIndexByte(rest, '@')
		switch {
		case at >= end: // a delimiter in a password, or an @ behind the path
			return scheme + "://…" + mark
		case end < len(rest):
			rest = rest[:end] + "…"
		}
		if at >= 0 {
			rest = "…" + rest[at:]
		}
		return scheme + "://" + rest + mark
	})
}
