package web_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// startBrowser starts a Chromium without a window, which all tests share until
// the process ends it, and returns the address of its DevTools protocol. The
// protocol is a handful of messages here, for which no library is needed.
var startBrowser = sync.OnceValues(func() (base string, err error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--hide-scrollbars",
		"--disable-background-networking", "--force-color-profile=srgb", "--remote-debugging-port=0",
		"--remote-allow-origins=http://127.0.0.1", "--user-data-dir="+dir, "about:blank")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	endBrowser = func() { _ = cmd.Process.Kill(); <-ended; _ = os.RemoveAll(dir) }
	for late := time.After(30 * time.Second); ; {
		if port, err := os.ReadFile(filepath.Join(dir, "DevToolsActivePort")); err == nil &&
			bytes.Contains(port, []byte("\n")) {
			line, _, _ := strings.Cut(string(port), "\n")
			return "http://127.0.0.1:" + line, nil
		}
		select {
		case <-ended:
			return "", fmt.Errorf("chromium has ended:\n%s", said.String())
		case <-late:
			return "", errors.New("chromium does not listen")
		case <-time.After(10 * time.Millisecond):
		}
	}
})

// endBrowser ends the browser, if one was started.
var endBrowser = func() {}

func TestMain(m *testing.M) {
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// tab is a page of the browser.
type tab struct {
	t    *testing.T
	conn *websocket.Conn

	mu      sync.Mutex
	next    int
	waiting map[int]chan answer
	logged  []string // what the page wrote to its console, and what its policy forbade
}

type answer struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Params json.RawMessage `json:"params"`
	Error  *struct{ Message string }
}

// newTab opens a tab that has no cookies. Without a browser it skips the test,
// or fails it if RATION_REQUIRE_BROWSER is set.
func newTab(t *testing.T) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	base, err := startBrowser()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("RATION_REQUIRE_BROWSER") == "" {
		t.Skip("chromium is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequest(http.MethodPut, base+"/json/new?about:blank", nil)
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var made struct{ WebSocketDebuggerURL string }
	text, _ := io.ReadAll(resp.Body)
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	conn, err := websocket.Dial(made.WebSocketDebuggerURL, "", "http://127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	conn.MaxPayloadBytes = 64 << 20
	p := &tab{t: t, conn: conn, waiting: map[int]chan answer{}}
	done := make(chan struct{})
	go func() { defer close(done); p.receive() }()
	t.Cleanup(func() { p.call("Page.close", nil); conn.Close(); <-done })
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil)
	}
	p.call("Network.clearBrowserCookies", nil)
	return p
}

func (p *tab) receive() {
	for {
		var a answer
		if websocket.JSON.Receive(p.conn, &a) != nil {
			return
		}
		p.mu.Lock()
		if a.ID != 0 {
			p.waiting[a.ID] <- a
			delete(p.waiting, a.ID)
		} else if a.Method == "Log.entryAdded" || a.Method == "Runtime.exceptionThrown" {
			p.logged = append(p.logged, string(a.Params))
		}
		p.mu.Unlock()
	}
}

// call calls a method of the protocol.
func (p *tab) call(method string, params any) json.RawMessage {
	p.t.Helper()
	p.mu.Lock()
	p.next++
	id, got := p.next, make(chan answer, 1)
	p.waiting[id] = got
	p.mu.Unlock()
	if err := websocket.JSON.Send(p.conn, map[string]any{"id": id, "method": method, "params": params}); err != nil {
		p.t.Fatal(err)
	}
	select {
	case a := <-got:
		if a.Error != nil {
			p.t.Fatalf("%s: %s", method, a.Error.Message)
		}
		return a.Result
	case <-time.After(3 * time.Minute): // axe takes half a minute on a busy machine
		p.t.Fatalf("%s is not answered", method)
	}
	return nil
}

// eval returns what a JavaScript expression is, which may be a promise.
func (p *tab) eval(expression string) any {
	p.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	text := p.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true,
		"awaitPromise": true})
	if err := json.Unmarshal(text, &got); err != nil {
		p.t.Fatal(err)
	}
	if got.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, got.ExceptionDetails.Exception.Description)
	}
	return got.Result.Value
}

// until waits until an expression is true, in the page as it then is.
func (p *tab) until(expression string) {
	p.t.Helper()
	for late := time.Now().Add(time.Minute); p.eval("Boolean("+expression+
		")") != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			p.t.Fatalf("%s does not become true; the page is\n%v", expression, p.eval("document.body.innerText"))
		}
	}
}

// visit opens a URL and waits until it is loaded.
func (p *tab) visit(url string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": url})
	p.until(fmt.Sprintf("location.href.startsWith(%q) && document.readyState === 'complete'", url))
}

// script turns the page's scripts on or off, from the next visit on.
func (p *tab) script(on bool) {
	p.t.Helper()
	p.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !on})
}

// dress sets the size of the window, and its colours.
func (p *tab) dress(width, height int, scheme string) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride",
		map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
	p.call("Emulation.setEmulatedMedia",
		map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme},
			{"name": "prefers-reduced-motion", "value": "reduce"}}})
}

// picture takes a screenshot as PNG.
func (p *tab) picture() []byte {
	p.t.Helper()
	var got struct{ Data string }
	_ = json.Unmarshal(p.call("Page.captureScreenshot", map[string]any{"format": "png"}), &got)
	png, err := base64.StdEncoding.DecodeString(got.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return png
}

// complaints returns what the browser logged.
func (p *tab) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logged
}
