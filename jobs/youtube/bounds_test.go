package youtube

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAnswersAreBounded reads an answer that is larger than any real one.
func TestAnswersAreBounded(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range maxAnswer>>20 + 1 {
			w.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
	}))
	defer web.Close()
	resp, err := (&http.Client{Transport: NewBase()}).Get(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil || !strings.Contains(err.Error(), "more than 16 MB") || n > maxAnswer {
		t.Errorf("read %d bytes, %v; want an error beyond 16 MB", n, err)
	}
}
