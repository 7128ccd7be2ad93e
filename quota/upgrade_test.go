package quota_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// ownContext is a context of a type of its own: each context that is derived
// from it keeps a goroutine until one of the two ends.
type ownContext struct {
	context.Context
	done chan struct{}
}

func (c ownContext) Done() <-chan struct{} { return c.done }

// TestAnUpgradeKeepsNoContext: a request whose answer switched the protocol
// kept the context that was derived from the caller's until that ended, which
// for a program's own context is never. The connection outlives the request.
func TestAnUpgradeKeepsNoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		go func() {
			reader := bufio.NewReader(server)
			if _, err := http.ReadRequest(reader); err != nil {
				t.Error(err)
			}
			io.WriteString(server, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			io.Copy(server, reader)
			server.Close()
		}()
		guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{budget("day", 10, time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		transport := &quota.Transport{Guard: guard, Price: priced(1), Base: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil }}}
		req, err := http.NewRequestWithContext(ownContext{context.Background(), make(chan struct{})}, http.MethodGet,
			"http://upstream/m", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // of the bubble
		conn := resp.Body.(io.ReadWriteCloser)
		said := make([]byte, 5)
		if _, err := io.WriteString(conn, "hello"); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conn, said); err != nil || string(said) != "hello" {
			t.Errorf("%q, %v; want what was sent", said, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}
