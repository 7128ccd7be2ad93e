package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/gateway"
)

const maxForm = 16 << 10

// proof returns what proves the knowledge of a key, for a purpose.
func proof(key []byte, purpose string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("ration page: " + purpose))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// hasToken reports whether a request has the token, or the cookie that stands
// for it, or needs none.
func (p *Page) hasToken(r *http.Request) bool {
	if p.options.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && equal(strings.TrimSpace(token), p.options.Token) ||
		equal(r.Header.Get("Ration-Token"), p.options.Token) {
		return true
	}
	return slices.ContainsFunc(r.CookiesNamed(gateway.PageCookie), func(cookie *http.Cookie) bool {
		return equal(cookie.Value, proof([]byte(p.options.Token), "cookie"))
	})
}

// needToken answers with the form for the token if a request has none.
func (p *Page) needToken(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if p.hasToken(r) {
			next(w, r)
			return
		}
		p.refuse(w, http.StatusUnauthorized, "")
	}
}

// refuse shows the form for the token.
func (p *Page) refuse(w http.ResponseWriter, status int, wrong string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="ration"`)
	p.write(w, status, "sign-in", &message{Assets: assets(), Text: wrong})
}

// formToken is in every form that changes something. Pages of other sites
// cannot read it.
func (p *Page) formToken() string { return proof(p.secret, "form") }

// needForm refuses requests that do not come from a form of the page itself.
func (p *Page) needForm(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if !isFromHere(r) || !equal(r.PostFormValue("form"), p.formToken()) {
			p.write(w, http.StatusForbidden, "message", &message{Assets: assets(), Title: "Nothing was changed",
				Text: "The form is not from this page as it is now: ration has restarted since, or another site " +
					"sent it. Open the page again."})
			return
		}
		next(w, r)
	}
}

// isFromHere reports whether a browser says that the page itself sent
// a request.
func isFromHere(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// signIn sets the cookie for a token.
func (p *Page) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	token := strings.TrimSpace(r.PostFormValue("token"))
	switch {
	case !isFromHere(r):
		p.refuse(w, http.StatusForbidden, "The form must be sent by this page.")
	case p.options.Token != "" && !equal(token, p.options.Token):
		p.refuse(w, http.StatusUnauthorized, "That is not the token.")
	default:
		p.setCookie(w, r, proof([]byte(p.options.Token), "cookie"), 30*24*60*60)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	}
}

func (p *Page) signOut(w http.ResponseWriter, r *http.Request) {
	p.setCookie(w, r, "", -1)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (p *Page) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: gateway.PageCookie, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true,
		Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}
