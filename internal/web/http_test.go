package web_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

type request = http.Request

// response is an answer that was read.
type response struct {
	*http.Response
	text string
}

// fetch sends a request without following redirects.
func fetch(t *testing.T, method, url, body string, change ...func(*request)) *response {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := plain.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &response{resp, string(text)}
}
