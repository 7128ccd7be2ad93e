package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestAnswersAreBounded reads an answer that is larger than any real one.
func TestAnswersAreBounded(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range maxAnswer>>20 + 1 {
			w.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
	}))
	defer web.Close()
	resp, err := (&http.Client{Transport: wire()}).Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil || !strings.Contains(err.Error(), "more than 16 MB") || n > maxAnswer {
		t.Errorf("read %d bytes, %v; want an error beyond 16 MB", n, err)
	}
}

// TestKeyIsPrintedWithTheURL: an error may repeat a URL, in any spelling.
func TestKeyIsPrintedWithTheURL(t *testing.T) {
	for message, want := range map[string]string{
		`Get "https://a.example/v1/x?key=s3cret&part=id": dial tcp: refused`: `Get "https://a.example/v1/x…": dial tcp: refused`,
		`https://a.example/v1/x;key=s3cret`:                                  `https://a.example/v1/x…`,
		`https://a.example/v1/x%3Bk%65y=s3cret is refused`:                   `https://a.example/v1/x… is refused`,
		`HTTPS://a.example/#s3cret`:                                          `HTTPS://a.example/…`,
		`rediss://s3cret@host:1/0, rediss://:s3cret@host`:                    `rediss://…@host:1/0, rediss://…@host`,
		`redis://u:s3?cr@et@host/0`:                                          `redis://…`,
		`https://a.example/?token=s3@cret`:                                   `https://…`,
		`see https://a.example/docs; then go on`:                             `see https://a.example/docs; then go on`,
		`write ?name=value, or sqlite:/srv/a#b;c.db`:                         `write ?name=value, or sqlite:/srv/a#b;c.db`,
	} {
		if got := withoutSecrets(message); got != want {
			t.Errorf("%s is shown as %s; want %s", message, got, want)
		}
	}
}

// A secret is hidden in every way in which it may be written.
func TestSecretIsQuotedOnItsWay(t *testing.T) {
	const secret = "pa\"ss\\w/rd é&\x1b"
	text, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &app{stdout: &visibleWriter{out: &out}, stderr: &out}
	a.conceal(secret)
	for _, form := range []string{secret, string(text), strconv.Quote(secret), url.QueryEscape(secret), url.PathEscape(secret)} {
		out.Reset()
		fmt.Fprintln(a.stdout, form)
		if got := out.String(); strings.Trim(got, "\"\n") != "[hidden]" {
			t.Errorf("%s is printed as %s", form, got)
		}
	}
}

func TestProxyPasswordIsPrinted(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out, getenv: func(name string) string {
		return map[string]string{"HTTPS_PROXY": "http://me:s3cr%65t@pro xy:1", "http_proxy": "t0kenword@proxy"}[name]
	}}
	a.concealProxies()
	fmt.Fprint(a.stderr, `invalid proxy address "http://me:s3cr%65t@pro xy:1", s3cret, t0kenword`)
	if got := out.String(); got != `invalid proxy address "http://me:[hidden]@pro xy:1", [hidden], [hidden]` {
		t.Error(got)
	}
}

func TestRedactorHidesSecrets(t *testing.T) {
	var out bytes.Buffer
	a := &app{stdout: &out, stderr: &out}
	a.conceal("")
	a.conceal("AIzaSECRET")
	io.WriteString(a.stdout, "the key AIzaSECRET is bad\n")
	io.WriteString(a.stderr, "AIzaSECRET")
	if got := out.String(); got != "the key [hidden] is bad\n[hidden]" {
		t.Errorf("printed %q", got)
	}
}

// TestARedirectElsewhereIsCalledAMistakeInCostsYAML: an upstream that redirects
// ended a run with the exit code of a configuration error, and with the advice to
// add the host to those that get the key.
func TestARedirectElsewhereIsCalledAMistakeInCostsYAML(t *testing.T) {
	web := httptest.NewServer(http.RedirectHandler("https://elsewhere.example/", http.StatusFound))
	defer web.Close()
	price := guardedOnly(func(req *http.Request) (quota.Call, error) {
		if "http://"+req.URL.Host != web.URL {
			return quota.Call{}, quota.ErrUnguarded
		}
		return quota.Call{Account: "p", Method: "m", Units: 1}, nil
	})
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{{Account: "p", Name: "b", Limit: 9, Window: quota.Sliding(time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: price}}
	_, err = client.Get(web.URL)
	if exit, _ := code(err); !errors.Is(err, quota.ErrRedirect) || exit != exitFailed {
		t.Errorf("a redirect: %v, exit %d; want ErrRedirect, exit %d", err, exit, exitFailed)
	}
	_, err = client.Get("http://elsewhere.example/")
	if exit, _ := code(err); exit != exitConfig {
		t.Errorf("a call of our own: %v, exit %d; want %d", err, exit, exitConfig)
	}
}
