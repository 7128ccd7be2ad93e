package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestNoKeyIsPrintedWithAURL: an error may repeat a URL, in any spelling.
func TestNoKeyIsPrintedWithAURL(t *testing.T) {
	for message, want := range map[string]string{
		`Get "https://a.example/v1/x?key=s3cret&part=id": dial tcp: refused`: `Get "https://a.example/v1/x…": ` +
			`dial tcp: refused`,
		`https://a.example/v1/x;key=s3cret`:                `https://a.example/v1/x…`,
		`https://a.example/v1/x%3Bk%65y=s3cret is refused`: `https://a.example/v1/x… is refused`,
		`HTTPS://a.example/#s3cret`:                        `HTTPS://a.example/…`,
		`rediss://s3cret@host:1/0, rediss://:s3cret@host`: `rediss://…@host:1/0, ` +
			`rediss://…@host`,
		`redis://u:s3?cr@et@host/0`:                                    `redis://…`,
		`https://a.example/?token=s3@cret`:                             `https://…`,
		`see https://a.example/docs; then go on`:                       `see https://a.example/docs; then go on`,
		`https://a.example/v1/x?key=s3cret: refused`:                   `https://a.example/v1/x…: refused`,
		`[https://s3?cr@et@host/0], https://a.example/?token=s3@cret;`: `[https://…], https://…;`,
		`postgres://s3?cr@et@host/db?schema=a`:                         `postgres://…`,
		`postgres://u:s3cret@host/db?schema=a`:                         `postgres://…@host/db…`,
		`postgres://u@host/db?schema=a&password=s3cret`:                `postgres://…@host/db…`,
		`postgres://u@host/db?schema=a%26password=s3cret`:              `postgres://…@host/db…`,
		`ledger postgres://u@host/db?host=%2Frun&schema=a: gone`: `ledger postgres://u@host/db?host=%2Frun&` +
			`schema=a: gone`,
		`ledger postgres://u@host/db is down`: `ledger postgres://u@host/db is down`,
		`(ledger unix:///run/redis.sock?db=2), down`: `(ledger unix:///run/redis.sock?db=2),` +
			` down`,
		`write ?name=value, or sqlite:/srv/a#b;c.db`: `write ?name=value, or ` +
			`sqlite:/srv/a#b;c.db`,
	} {
		if got := RedactURLs(message); got != want {
			t.Errorf("%s is shown as %s; want %s", message, got, want)
		}
	}
}

// A secret is hidden in every way in which it may be written.
func TestASecretIsHiddenHoweverItIsQuoted(t *testing.T) {
	const secret = "pa\"ss\\w/rd é&\x1b"
	text, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	var secrets Secrets
	secrets.Hide(secret)
	hiding := secrets.Writer(NewWriter(&out))
	for _, form := range []string{secret, string(text), strconv.Quote(secret), url.QueryEscape(secret),
		url.PathEscape(secret)} {
		out.Reset()
		fmt.Fprintln(hiding, form)
		if got := out.String(); strings.Trim(got, "\"\n") != "[hidden]" {
			t.Errorf("%s is printed as %s", form, got)
		}
	}
}

func TestNoProxyPasswordIsPrinted(t *testing.T) {
	var out bytes.Buffer
	var secrets Secrets
	for _, secret := range ProxyPasswords(func(name string) string {
		return map[string]string{"HTTPS_PROXY": "http://me:s3cr%65t@pro xy:1", "http_proxy": "t0kenword@proxy"}[name]
	}) {
		secrets.Hide(secret)
	}
	fmt.Fprint(secrets.Writer(&out), `invalid proxy address "http://me:s3cr%65t@pro xy:1", s3cret, t0kenword`)
	if got := out.String(); got != `invalid proxy address "http://me:[hidden]@pro xy:1", [hidden], [hidden]` {
		t.Error(got)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	var out bytes.Buffer
	var secrets Secrets
	hiding := secrets.Writer(&out) // also those that it does not know yet
	for _, secret := range []string{"", "AIzaSECRET", "AIzaSECRET-2", "AIzaSECRET"} {
		secrets.Hide(secret)
	}
	io.WriteString(hiding, "the key AIzaSECRET is bad, as is AIzaSECRET-2\n")
	io.WriteString(hiding, "AIzaSECRET")
	if got := out.String(); got != "the key [hidden] is bad, as is [hidden]\n[hidden]" {
		t.Errorf("printed %q", got)
	}
}

// TestMessagesNameNoPackage: "quota: " says nothing to the user of a command.
func TestMessagesNameNoPackage(t *testing.T) {
	for _, err := range []error{quota.ErrBadToken, fmt.Errorf("sqlite ledger a.db: %w: gone", quota.ErrLedgerLost),
		errors.Join(quota.ErrInDoubt, quota.ErrBadCall)} {
		if got, want := RedactMessage(err.Error()), strings.ReplaceAll(err.Error(), "quota: ", ""); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	const upstream = "403: quota: exceeded, see https://a.example/?key=s3cret"
	if got := RedactMessage(upstream); got != "403: quota: exceeded, see https://a.example/…" {
		t.Errorf("an upstream's message is shown as %s", got)
	}
}
