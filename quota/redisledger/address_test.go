package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// shownURLHoldsASecretCases are the cases of TestAShownURLHoldsNoSecret.
var shownURLHoldsASecretCases = []string{
	"", "host", "http://host", "redis:host", "redis://", "redis:///0", "redis://:6379", "redis://host:0",
	"redis://host:65536", "redis://host:s3cret",
	"redis://a,b", "redis://a b", "redis://a\x1b[2J", "redis://ünï", "redis://a:1:2", "redis://[::1",
	"redis://host/-1", "redis://host/0/1", "redis://host/%zz", "redis://h%6fst",
	"redis://:s3cret@host/s3cret", "redis://u:s3?cret@host", "redis://u:s3#cret@host", "redis://u:s3/cret@host",
	"redis://u:s3%cret@host",
	"redis://host?s3cret=1", "redis://host?dial_timeout=5s", "redis://host?protocol=4",
	"redis://host?protocol=2&protocol=3", "redis://host?protocol=", "redis://host?%zz",
	"redis://host?ca=/etc/ca.pem", "redis://me@host", "unix://", "unix:///", "unix://host/run/redis.sock",
	"unix:///run/redis.sock?db=x",
	"redis+sentinel://a", "redis+sentinel://a/", "redis+sentinel://a/main/x", "redis+sentinel:///main",
	"redis+sentinel://a,,b/main", "redis+sentinel://a/main?sentinel_user=x",
	"redis+cluster://a/1", "redis+cluster://", "redis+nothing://a", "rediss://host?cert=a",
	"rediss://host?ca=/nothing/here.pem",
	"rediss://host?cert=/nothing/here.pem&key=/nothing/here.pem", "rediss://host?insecure_skip_verify=yes",
	"rediss://host?insecure_skip_verify=true&ca=x", "rediss://host?ca key=1",
}

// TestAShownURLHoldsNoSecret: a valid URL is shown without its secrets; an
// invalid one is an ErrLedgerConfig without any part of the password.
func TestAShownURLHoldsNoSecret(t *testing.T) {
	for url, want := range map[string]string{
		"redis://host":                                   "redis://host:6379/0",
		"redis://[::1]":                                  "redis://[::1]:6379/0",
		"redis://[::1]:7000/3?protocol=2":                "redis://[::1]:7000/3",
		"redis://:s3cret@host:1/15":                      "redis://host:1/15",
		"redis://me:s3cret@host/":                        "redis://host:6379/0",
		"redis://me:s3cr%40%2f%3aet@host":                "redis://host:6379/0",
		"rediss://:s3cret@host?server_name=a.example":    "rediss://host:6379/0",
		"rediss://host?insecure_skip_verify=true":        "rediss://host:6379/0",
		"unix:///run/redis.sock?db=2":                    "unix:///run/redis.sock",
		"unix://me:s3cret@/run/redis.sock":               "unix:///run/redis.sock",
		"redis+sentinel://a,b:1,[::1]:2/main":            "redis+sentinel://a:26379,b:1,[::1]:2/main/0",
		"redis+sentinel://me:s3cret@a,b/main/4":          "redis+sentinel://a:26379,b:26379/main/4",
		"redis+sentinel://a/main?sentinel_password=cret": "redis+sentinel://a:26379/main/0",
		"redis+cluster://a:1,b:2":                        "redis+cluster://a:1,b:2",
		"rediss+cluster://:s3cret@a,b/0?protocol=3":      "rediss+cluster://a:6379,b:6379",
	} {
		l, err := Open(url, nil)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		_ = l.Close()
		shown, secret := Redact(url)
		if shown != want || secret != strings.Contains(url, "cr") {
			t.Errorf("%s is shown as %s, secret %v; want %s", url, shown, secret, want)
		}
	}
	for _, url := range shownURLHoldsASecretCases {
		l, err := Open(url, nil)
		wrong, ok := errors.AsType[*AddressError](err)
		if !ok || l != nil || !errors.Is(err, engine.ErrLedgerConfig) ||
			strings.Contains(wrong.Err.Error(), "redisledger") || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v; want ErrLedgerConfig, without the secret", url, err)
		}
		if shown, _ := Redact(url); strings.Contains(shown, "cret") {
			t.Errorf("%s is shown as %s", url, shown)
		}
	}
	for url, want := range map[string]string{
		"redis:/foo": "redisledger: the redis URL has no // after its scheme; write redis://HOST:PORT/DB",
		"redis://a,b": "redisledger: the redis URL has several hosts, which need a scheme with +cluster or " +
			"+sentinel; write redis://HOST:PORT/DB",
		"redis+sentinel://a/": "redisledger: the redis+sentinel URL has no name of a master; write " +
			"redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DB",
	} {
		if _, err := Open(url, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", url, err, want)
		}
	}
}

// TestAPasswordInThePlaceOfTheUserIsHidden: without a colon, the text before
// the @ is the user, and people put the password there.
func TestAPasswordInThePlaceOfTheUserIsHidden(t *testing.T) {
	for _, url := range []string{
		"rediss://s3cret@host", "redis://s3cret:@host", "redis://s3cret:x@host/1", "unix://s3cret@/run/redis.sock",
		"redis+sentinel://s3cret@a,b/main",
		"rediss+cluster://s3cret@a,b", "redis://s3%63ret@host", "redis://%73%33cret@host",
		"redis+sentinel://a/main?sentinel_user=s3cret&sentinel_password=x",
		"redis+sentinel://a/main?sentinel_p%61ssword=s3cret", "redis+sentinel://a/main?SENTINEL_PASSWORD=s3cret",
		"redis://host?password=s3cret", "redis://host;password=s3cret",
		"redis://host/0;s3cret", "REDIS://s3cret@host", "redis:s3cret@host", "redis:/s3cret@host",
		"redis://host#s3cret", "s3cret://host", "s3cret", "redis://s3cret@ho st",
	} {
		shown, _ := Redact(url)
		_, err := Open(url, nil)
		if text := fmt.Sprint(err, shown); strings.Contains(text, "cret") || strings.Contains(text, "%63") {
			t.Errorf("%s: shown as %s; %v", url, shown, err)
		}
		l, err := Open(url, &Options{Password: "an0ther"})
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
		_, err = l.Read(ctx, "a", &engine.Read{})
		cancel()
		if err == nil || strings.Contains(err.Error(), "cret") || strings.Contains(err.Error(), "an0ther") {
			t.Errorf("%s: %v", url, err)
		}
		l.Close()
	}
}

func FuzzURL(f *testing.F) {
	for _, url := range []string{"redis://u:Pa55word@host:1/0",
		"redis+sentinel://u:Pa55word@a,b:1/main/0?sentinel_password=Pa55word", "rediss://:Pa55word@[::1]?ca=x"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		l, err := Open(url, nil)
		if err == nil {
			_ = l.Close()
		}
		shown, secret := Redact(url)
		if strings.Count(url, "Pa55word") == 1 && secret && strings.Contains(shown, "Pa55word") || err != nil &&
			strings.Contains(err.Error(), "Pa55word") &&
			!strings.Contains(url, "=") { // a file's name is shown
			t.Errorf("%q: %v, shown as %q", url, err, shown)
		}
	})
}
