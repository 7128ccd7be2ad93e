package web_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

const secret = "0123456789abcdef0123456789abcdef"

// form returns a request's change to one that a browser sends for a form.
func form(s *scene, cookies ...*http.Cookie) func(*request) {
	return func(r *request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", s.url)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		for _, c := range cookies {
			r.AddCookie(c)
		}
	}
}

var formField = regexp.MustCompile(`name="form" value="([^"]+)"`)

// TestThePageNeedsTheToken: with a token of the gateway, nothing but the form
// for it is shown. The cookie that stands for it is for this page only, and is
// not the token.
func TestThePageNeedsTheToken(t *testing.T) {
	s := newScene(t, sceneOptions{token: secret})
	for _, path := range []string{"/", "/page/events", "/?q=a"} {
		if r := s.fetch(path); r.StatusCode != http.StatusUnauthorized || strings.Contains(r.text, "my-project") {
			t.Errorf("%s without a token: %s, %s", path, r.Status, r.text)
		}
	}
	r := s.fetch("/", func(r *request) { r.Header.Set("Authorization", "Bearer "+secret) })
	if r.StatusCode != http.StatusOK {
		t.Errorf("with the token in a header: %s", r.Status)
	}
	for _, wrong := range []string{"", "wrong", secret + "x"} {
		if r := fetch(t, "POST", s.url+"/page/sign-in", url.Values{"token": {wrong}}.Encode(),
			form(s)); r.StatusCode != http.StatusUnauthorized || len(r.Cookies()) > 0 {
			t.Errorf("token %q: %s", wrong, r.Status)
		}
	}
	r = fetch(t, "POST", s.url+"/page/sign-in", url.Values{"token": {secret}}.Encode(), form(s))
	if r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 1 {
		t.Fatalf("with the token: %s, %v", r.Status, r.Cookies())
	}
	cookie := r.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, secret) {
		t.Errorf("cookie %v", cookie)
	}
	if r := s.fetch("/", func(r *request) { r.AddCookie(cookie) }); r.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %s", r.Status)
	}
	if r := s.fetch("/v1/cooldowns",
		func(r *request) { r.AddCookie(cookie) }); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API with the cookie: %s", r.Status)
	}
	other := newScene(t, sceneOptions{token: secret + "other"})
	if r := other.fetch("/", func(r *request) { r.AddCookie(cookie) }); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("another gateway with the cookie: %s", r.Status)
	}
}

// TestOnlyThePagesFormLiftsACooldown: a GET, a form of another site, and one
// without what only the page has, change nothing.
func TestOnlyThePagesFormLiftsACooldown(t *testing.T) {
	s := newScene(t, sceneOptions{})
	if err := s.Guard().Cool(t.Context(), quota.Cooldown{Account: "my-project", Budget: "youtube", For: time.Hour,
		Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	found := formField.FindStringSubmatch(s.fetch("/").text)
	if found == nil {
		t.Fatal("the page has no form to lift the cooldown")
	}
	fields := url.Values{"form": {found[1]}, "account": {"my-project"}, "budget": {"youtube"}}
	lift := s.url + "/page/lift"
	header := func(name, value string) func(*request) {
		return func(r *request) { r.Header.Set(name, value) }
	}
	with := func(name, value string) string {
		changed := url.Values{}
		for k, v := range fields {
			changed[k] = v
		}
		changed.Set(name, value)
		return changed.Encode()
	}
	for name, r := range map[string]*response{
		"GET":                 fetch(t, "GET", lift+"?"+fields.Encode(), "", form(s)),
		"another site's form": fetch(t, "POST", lift, fields.Encode(), form(s), header("Sec-Fetch-Site", "cross-site")),
		"another origin": fetch(t, "POST", lift, fields.Encode(), form(s),
			header("Origin", "http://evil.example")),
		"the origin null": fetch(t, "POST", lift, fields.Encode(), form(s), header("Origin", "null")),
		"no origin": fetch(t, "POST", lift, fields.Encode(), form(s),
			func(r *request) { r.Header.Del("Origin") }),
		"no form token":      fetch(t, "POST", lift, with("form", ""), form(s)),
		"a wrong form token": fetch(t, "POST", lift, with("form", "x"), form(s)),
		"a token in the URL": fetch(t, "POST", lift+"?form="+url.QueryEscape(found[1]), with("form", ""), form(s)),
		"an unknown budget":  fetch(t, "POST", lift, with("budget", "other"), form(s)),
		"an unknown account": fetch(t, "POST", lift, with("account", "other"), form(s)),
		"another host's name": fetch(t, "POST", lift, fields.Encode(), form(s),
			func(r *request) { r.Host = "rebound.example" }),
	} {
		if r.StatusCode < 400 {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	if _, held, err := s.Guard().Cooldowns(t.Context(), "my-project"); err != nil || len(held) != 1 {
		t.Fatalf("cooldowns %v, %v; want one", held, err)
	}
	if r := fetch(t, "POST", lift, fields.Encode(), form(s)); r.StatusCode != http.StatusSeeOther {
		t.Errorf("the page's own form: %s, %s", r.Status, r.text)
	}
	if _, held, err := s.Guard().Cooldowns(t.Context(), "my-project"); err != nil || len(held) != 0 {
		t.Errorf("cooldowns %v, %v; want none", held, err)
	}
}

// TestThePageIsForThisSite: its policy allows nothing inline or from
// elsewhere, it is in no frame, only known hosts are served, and another site
// may link to it.
func TestThePageIsForThisSite(t *testing.T) {
	s := newScene(t, sceneOptions{})
	r := s.fetch("/")
	policy := r.Header.Get("Content-Security-Policy")
	contains(t, policy, "default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
		"form-action 'self'", "base-uri 'none'")
	if strings.Contains(policy, "unsafe") || strings.Contains(r.text, " style=") ||
		strings.Contains(r.text, "<style") ||
		regexp.MustCompile(`(?:src|href|action)="(?:[a-z]+:)?//`).MatchString(r.text) ||
		regexp.MustCompile(`\son[a-z]+=`).MatchString(r.text) {
		t.Errorf("policy %q of\n%s", policy, r.text)
	}
	browser := func(site, mode, dest string) func(*request) {
		return func(r *request) {
			r.Header.Set("Sec-Fetch-Site", site)
			r.Header.Set("Sec-Fetch-Mode", mode)
			r.Header.Set("Sec-Fetch-Dest", dest)
		}
	}
	for want, change := range map[int]func(*request){
		http.StatusMisdirectedRequest: func(r *request) { r.Host = "rebound.example" },
		http.StatusForbidden:          browser("cross-site", "navigate", "iframe"),
		http.StatusOK:                 browser("cross-site", "navigate", "document"),
	} {
		if r := s.fetch("/", change); r.StatusCode != want {
			t.Errorf("%s; want %d", r.Status, want)
		}
	}
	for path, want := range map[string]int{"/page/page.js": 200, "/page/page.css": 200, "/page/icon.svg": 200,
		"/page/page.html": 404, "/page/": 404, "/favicon.ico": 404} {
		if r := s.fetch(path); r.StatusCode != want {
			t.Errorf("%s: %s; want %d", path, r.Status, want)
		}
	}
}

// TestStreamsEndWhenThePageCloses: an open page does not keep a server from
// its end.
func TestStreamsEndWhenThePageCloses(t *testing.T) {
	s := newScene(t, sceneOptions{every: 10 * time.Millisecond})
	version := regexp.MustCompile(`data-version="([^"]+)"`).FindStringSubmatch(s.fetch("/").text)
	resp, err := http.Get(s.url + "/page/events?v=" + url.QueryEscape(version[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("the stream is empty")
	}
	s.page.Close()
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if r := s.fetch("/page/events?v=of-another-process.x.1"); !strings.Contains(r.text, "event: reload") {
		t.Errorf("a page of another process is sent %q", r.text)
	}
}

// TestThePageShowsThatTheLedgerIsDown: without budgets, at the first visit too.
func TestThePageShowsThatTheLedgerIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a ledger that is down, 5 seconds")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	s := newScene(t, sceneOptions{ledger: "redis://" + address + "/0", every: time.Nanosecond,
		costs: sceneCosts + "when_ledger_down: {videos.list: {allow: 1}, default: refuse}\n"})
	first := s.fetch("/").text
	contains(t, first, "The ledger is down", "The budgets have not been read yet; they appear here when it answers.",
		"<dd>cannot be read")
	if strings.Contains(first, "What follows is of") {
		t.Error("the first visit says that numbers follow")
	}
	s.spend("videos.list", "US", "trending", 1)
	r := s.fetch("/?call=search.list&q=US")
	if r.StatusCode != http.StatusOK {
		t.Errorf("%s", r.Status)
	}
	contains(t, r.text, "The ledger is down", "The log cannot be read", "It would not pass", "redis://"+address)
	contains(t, s.fetch("/").text, "The runs cannot be read.", "The log cannot be read.", "</data> unit went out",
		"</data> unit was sent")
}

// replaceable is a ledger in whose place another can be put.
type replaceable struct {
	quota.Ledger
	later atomic.Pointer[memledger.Ledger]
}

func (l *replaceable) now() quota.Ledger {
	if later := l.later.Load(); later != nil {
		return later
	}
	return l.Ledger
}

// Append implements quota.Ledger.
func (l *replaceable) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	return l.now().Append(ctx, account, a)
}

// Read implements quota.Ledger.
func (l *replaceable) Read(ctx context.Context, account string, r *quota.Read) (*quota.Tail, error) {
	return l.now().Read(ctx, account, r)
}

// TestThePageShowsALoss: a ledger that has lost its records gets back what this
// host knows, and the page says so.
func TestThePageShowsALoss(t *testing.T) {
	ledger := &replaceable{Ledger: memledger.Open(nil)}
	s := newScene(t, sceneOptions{opened: ledger, every: time.Millisecond})
	call, err := s.Table().Call("", "search.list")
	if err == nil {
		_, err = s.Guard().Spend(t.Context(), call)
	}
	if err != nil {
		t.Fatal(err)
	}
	const loss = "The ledger had lost records"
	if r := s.fetch("/"); strings.Contains(r.text, loss) {
		t.Errorf("before the loss the page says %q", loss)
	}
	ledger.later.Store(memledger.Open(nil))
	for end := time.Now().Add(10 * time.Second); !strings.Contains(s.fetch("/").text, loss); {
		if time.Now().After(end) {
			t.Fatalf("the page does not say %q", loss)
		}
	}
	contains(t, s.fetch("/").text, `This host restored <data value="100">100</data> units`)
}

// TestStreamsAreLimited: more open pages than 100 are not live.
func TestStreamsAreLimited(t *testing.T) {
	s := newScene(t, sceneOptions{})
	version := regexp.MustCompile(`data-version="([^"]+)"`).FindStringSubmatch(s.fetch("/").text)
	for i := range 101 {
		resp, err := http.Get(s.url + "/page/events?v=" + url.QueryEscape(version[1]))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if want := map[bool]int{true: http.StatusOK,
			false: http.StatusServiceUnavailable}[i < 100]; resp.StatusCode != want {
			t.Fatalf("stream %d: %s", i+1, resp.Status)
		}
	}
}
