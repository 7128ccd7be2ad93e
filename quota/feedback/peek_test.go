package feedback_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// stalling is a body that stalls after its first part until it is closed or a
// time has passed.
func stalling(first, rest string, after time.Duration) (io.ReadCloser, *io.PipeWriter) {
	r, w := io.Pipe()
	go func() {
		if _, err := io.WriteString(w, first); err != nil {
			return
		}
		if after > 0 {
			time.Sleep(after)
			io.WriteString(w, rest)
			w.Close()
		}
	}()
	return r, w
}

// TestAStalledErrorDelaysTheCallerBySeconds: an upstream that stalls inside an
// error delays the answer by seconds, and its body still reads as it was sent.
func TestAStalledErrorDelaysTheCallerBySeconds(t *testing.T) {
	spent := body(403, spentHTML, "quotaExceeded")
	for _, c := range []struct {
		name   string
		at     int // the body stalls there
		stalls time.Duration
		took   time.Duration
		says   bool
	}{
		{"at once, for long", 0, time.Minute, 3 * time.Second, false},
		{"within, for long", 100, time.Minute, 3 * time.Second, false},
		{"within, a little", 100, 2 * time.Second, 2 * time.Second, true},
		{"at the end, for long", len(spent), time.Minute, 3 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent, _ := stalling(spent[:c.at], spent[c.at:], c.stalls)
				resp := &http.Response{StatusCode: 403, Header: http.Header{}, Body: sent}
				began := time.Now()
				got := reader(t, "google", feedback.Options{})(call, resp)
				if took := time.Since(began); took != c.took || (got.Reason == "403 quotaExceeded") != c.says {
					t.Errorf("%+v after %s; want it after %s", got, took, c.took)
				}
				text, err := io.ReadAll(resp.Body)
				if string(text) != spent || err != nil || time.Since(began) != c.stalls {
					t.Errorf("read %d bytes, %v, after %s; want all, when they come", len(text), err, time.Since(began))
				}
				if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("behind the end: %d, %v", n, err)
				}
			})
		})
	}
}

// TestStalledErrorCanBeClosed: peek ends with the caller's context, and the
// background read with the body.
func TestStalledErrorCanBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, _ := stalling("{", "", 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		resp := &http.Response{StatusCode: 500, Header: http.Header{}, Body: sent,
			Request: (&http.Request{URL: &url.URL{}}).WithContext(ctx)}
		began := time.Now()
		if got := reader(t, "generic", feedback.Options{})(call, resp); !got.Transient ||
			time.Since(began) != time.Second {
			t.Errorf("%+v after %s; want it when the context ended", got, time.Since(began))
		}
		time.AfterFunc(time.Minute, func() { resp.Body.Close() })
		text, err := io.ReadAll(resp.Body)
		if string(text) != "{" || !errors.Is(err, io.ErrClosedPipe) || time.Since(began) != time.Minute+time.Second {
			t.Errorf("%q, %v after %s; want what was sent, until it was closed", text, err, time.Since(began))
		}
	})
}

// TestStalledErrorIsRetried: a transport that tries again does not wait for
// the rest of a stalled answer either.
func TestStalledErrorIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budgets := []quota.Budget{hour("all", 1000)}
		hits := 0
		base := tripper(func(r *http.Request) (*http.Response, error) {
			if hits++; hits > 1 {
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
			}
			sent, _ := stalling("{", "", 0)
			return &http.Response{StatusCode: 500, Body: sent, Request: r}, nil
		})
		client := clientOf(t, budgets, &quota.Transport{Base: base, Retries: 1, MaxWait: time.Minute,
			Feedback: reader(t, "generic", feedback.Options{Budgets: budgets})})
		began := time.Now()
		resp, err := client.Get("http://upstream/m")
		if err != nil || resp.StatusCode != 200 || hits != 2 || time.Since(began) > 4*time.Second {
			t.Errorf("%v after %s and %d hits; want the second answer, within seconds", err, time.Since(began), hits)
		}
		time.Sleep(time.Minute) // until the first is given up
	})
}

// TestShortReadsReadTheSame: a body that arrives byte by byte, or with empty
// reads, reads the same.
func TestShortReadsReadTheSame(t *testing.T) {
	spent := body(403, spentHTML, "quotaExceeded")
	resp := response(403, "", spent)
	resp.Body = io.NopCloser(&emptyReads{Reader: iotest.OneByteReader(resp.Body)})
	if got := reader(t, "google", feedback.Options{})(call, resp); got.Reason != "403 quotaExceeded" {
		t.Errorf("%+v; want it read", got)
	}
	if n, err := resp.Body.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing asked: %d, %v", n, err)
	}
	if text, err := io.ReadAll(resp.Body); string(text) != spent || err != nil {
		t.Errorf("%d bytes, %v; want all", len(text), err)
	}
}

// TestLongestErrorIsRead: an error of 64 KiB is read, and a longer one is not.
func TestLongestErrorIsRead(t *testing.T) {
	spent := body(403, spentHTML, "quotaExceeded")
	for size, says := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		resp := response(403, "", spent+strings.Repeat(" ", size-len(spent)))
		if got := reader(t, "google", feedback.Options{})(call, resp); (got.Reason == "403 quotaExceeded") != says {
			t.Errorf("%d bytes: %+v", size, got)
		}
	}
}

// emptyReads reads nothing every second time.
type emptyReads struct {
	io.Reader
	turns int
}

func (e *emptyReads) Read(p []byte) (int, error) {
	if e.turns++; e.turns%2 == 0 {
		return 0, nil
	}
	return e.Reader.Read(p)
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
