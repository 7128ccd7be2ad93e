package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// clone is the folder of the module, set by TestMain.
var clone string

// TestMain runs the tests in a folder with the shipped costs.yaml, one for
// GitHub, and a state folder of their own, and sends what http.DefaultTransport
// sends to a local YouTube and a local GitHub, so that examples can be written
// as their users write them.
func TestMain(m *testing.M) {
	os.Exit(inFolder(m.Run))
}

func inFolder(run func() int) int {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if clone, err = filepath.Abs(filepath.Join("..", "..")); err != nil {
		log.Fatal(err)
	}
	shipped, err := os.ReadFile(filepath.Join(clone, "costs.yaml"))
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range map[string]string{"costs.yaml": string(shipped),
		"github.yaml": "version: 1\npreset: github-rest\naccount: my-app\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			log.Fatal(err)
		}
	}
	for _, set := range [][2]string{{"RATION_STATE", filepath.Join(dir, "state")}, {"RATION_LEDGER", ""},
		{"RATION_JOURNAL", filepath.Join(dir, "replica")}, {"YOUTUBE_API_KEY", "key"}} {
		if err := os.Setenv(set[0], set[1]); err != nil {
			log.Fatal(err)
		}
	}
	hosts := http.NewServeMux()
	hosts.Handle("/", youtubetest.New(nil))
	hosts.HandleFunc("api.github.com/", spentGitHub)
	upstream := httptest.NewTLSServer(hosts)
	defer upstream.Close()
	http.DefaultTransport = dialing(upstream)
	if err := os.Chdir(dir); err != nil {
		log.Fatal(err)
	}
	defer os.Chdir(clone)
	return run()
}

// spentGitHub answers like GitHub when the hour's calls are spent.
func spentGitHub(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-RateLimit-Limit", "5000")
	w.Header().Set("X-RateLimit-Remaining", "0")
	w.Header().Set("X-RateLimit-Resource", "core")
	w.Header().Set("X-RateLimit-Reset", fmt.Sprint(time.Now().Add(time.Hour).Unix()))
	fmt.Fprint(w, `{"full_name": "golang/go"}`)
}

// dialing returns a transport that takes srv, a TLS server, for every host
// except the servers of tests.
func dialing(srv *httptest.Server) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if !strings.HasPrefix(address, "127.0.0.1:") {
				address = srv.Listener.Addr().String()
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
}
