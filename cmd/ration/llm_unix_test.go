//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/inspect"
)

// llm is a server that answers as OpenAI does, and counts by itself: what calls
// in flight may cost at most, and what the others did cost, in each budget of
// docs/llm.md.
type llm struct {
	mu      sync.Mutex
	open    map[string]int64
	settled map[string]int64
	limits  map[string]int64
	over    []string // budgets that did not hold
	waiting int      // until all budgets of output are reserved
	full    chan struct{}
}

// llmCalls are how many calls of 1000 tokens at most fit the three budgets of
// output. As many are in flight before the first is answered.
const llmCalls = 3 * 8

type llmRequest struct {
	Model    string
	Most     int64 `json:"max_completion_tokens"`
	Stream   bool
	Messages []struct{ Role, Content string }
}

// dollars are the prices of a model in tenths of a millionth of a dollar,
// as docs/llm.md has them.
var dollars = map[string][2]int64{"gpt-4o": {250, 1000}, "gpt-4o-mini": {15, 60}, "o3": {200, 800}}

// amounts returns what a call of a model counts in each budget.
func (r *llmRequest) amounts(input, output int64) map[string]int64 {
	method := map[string]string{"gpt-4o": "chat", "gpt-4o-mini": "mini", "o3": "o3"}[r.Model]
	price := dollars[r.Model]
	return map[string]int64{
		"openai-requests": 1, "openai-tokens": input + output, method + "-output": output,
		"money": (input*price[0] + output*price[1] + 99) / 100,
	}
}

func (u *llm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request llmRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	length := int64(0)
	for _, message := range request.Messages {
		length += int64(len(message.Role) + len(message.Content))
	}
	reserved := request.amounts((length+3)/4, request.Most)
	input, output := length/5, 40+length*37%260
	u.begin(reserved)
	select {
	case <-u.full:
	case <-r.Context().Done():
	case <-time.After(20 * time.Second): // fewer calls than fit are in flight
		w.WriteHeader(http.StatusGatewayTimeout)
		return
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, input, output,
		input+output)
	if !request.Stream {
		w.Header().Set("Content-Type", "application/json")
		u.end(reserved, request.amounts(input, output))
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"word"}}],%s}`, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range output {
		io.WriteString(w, `data: {"choices":[{"delta":{"content":"word "}}],"usage":null}`+"\n\n")
		_ = http.NewResponseController(w).Flush()
	}
	u.end(reserved, request.amounts(input, output))
	fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
}

// begin counts a call, and notes which budgets are exceeded by it.
func (u *llm) begin(reserved map[string]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, n := range reserved {
		u.open[name] += n
		if sum := u.open[name] + u.settled[name]; sum > u.limits[name] {
			u.over = append(u.over, fmt.Sprintf("%s: %d of %d", name, sum, u.limits[name]))
		}
	}
	if u.waiting--; u.waiting == 0 {
		close(u.full)
	}
}

func (u *llm) end(reserved, settled map[string]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, n := range reserved {
		u.open[name] -= n
		u.settled[name] += settled[name]
	}
}

// llmDrivers ask 11 times at once, with the functions of docs/llm.md.
var llmDrivers = map[string]string{
	"python": `
import sys, threading
def one(i):
    if not ask(["gpt-4o", "gpt-4o-mini", "o3"][i % 3], "a question " * (i + 3)).startswith("word"):
        raise SystemExit("no answer")
calls = [threading.Thread(target=one, args=(i,)) for i in range(int(sys.argv[1]), int(sys.argv[2]))]
for c in calls: c.start()
for c in calls: c.join()
`,
	"js": `
const [from, to] = process.argv.slice(-2).map(Number), calls = [];
for (let i = from; i < to; i++) calls.push(ask(["gpt-4o", "gpt-4o-mini", "o3"][i % 3], "a question ".repeat(i + 3)));
if (!(await Promise.all(calls)).every(text => text.startsWith("word"))) throw new Error("no answer");
`,
}

// TestServicesShareTheTokensOfTheirModels: 64 calls at once, by the Python and
// the Node of docs/llm.md, never exceed a budget by the count of the upstream,
// and the budgets hold in the end what it counted. status prints what the page
// shows.
func TestServicesShareTheTokensOfTheirModels(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other languages, 3 seconds")
	}
	t.Parallel()
	page := mustRead(t, filepath.Join("..", "..", "docs", "llm.md"))
	block := func(language string) string {
		_, text, _ := strings.Cut(page, "```"+language+"\n")
		text, _, _ = strings.Cut(text, "```")
		return text
	}
	u := &llm{open: map[string]int64{}, settled: map[string]int64{}, waiting: llmCalls, full: make(chan struct{}),
		limits: map[string]int64{
			"chat-output": 8000, "mini-output": 8000, "o3-output": 8000, "openai-requests": 5000,
			"openai-tokens": 450_000,
			"money":         50_000_000}}
	web := httptest.NewServer(u)
	t.Cleanup(web.Close)
	s := &stand{dir: t.TempDir(), url: web.URL}
	s.write(t, "costs.yaml", block("yaml")+"ledger: sqlite:ration.db\n")
	s.write(t, "service.py", block("python")+llmDrivers["python"])
	s.write(t, "service.mjs", block("js")+llmDrivers["js"])
	url := s.start(t, nil, "proxy", "--listen", "127.0.0.1:0").url()
	var services sync.WaitGroup
	for i := range 6 {
		services.Go(func() {
			name, file := "python3", "service.py"
			if _, err := exec.LookPath("node"); err == nil && i%2 == 1 {
				name, file = "node", "service.mjs"
			}
			cmd := exec.CommandContext(t.Context(), name, file, fmt.Sprint(64*i/6), fmt.Sprint(64*(i+1)/6))
			cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "RATION_URL="+url, "OPENAI_API_KEY=k", "NO_PROXY=127.0.0.1")
			if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "Error") {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		})
	}
	services.Wait()
	for _, over := range u.over {
		t.Error("more than the limit of", over)
	}
	s.checkLLM(t, u)
	_, out, _ := s.run(t, nil, "status")
	if got, want := balanceRows(out), balanceRows(block("console")); len(got) < 9 || !slices.Equal(got, want) {
		t.Errorf("status prints\n%s\nthe page shows\n%s", out, block("console"))
	}
}

// balanceRows returns the table of budgets in what status prints, without when
// units return.
func balanceRows(text string) (rows []string) {
	_, table, _ := strings.Cut(text, "\nBUDGET")
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		line, _, _ = strings.Cut(line, " +")
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	return rows
}

// checkLLM waits until all calls are settled, and holds each budget against
// what the upstream counted.
func (s *stand) checkLLM(t *testing.T, u *llm) {
	t.Helper()
	u.mu.Lock()
	want := maps.Clone(u.settled)
	u.mu.Unlock()
	var got map[string]int64
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !maps.Equal(got, want); {
		_, out, text := s.run(t, nil, "status", "--json")
		var report inspect.Report
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err, out, text)
		}
		got = map[string]int64{}
		for _, b := range report.Budgets {
			if b.Used > 0 {
				got[b.Name] = int64(b.Used)
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the budgets hold %v; the upstream counted %v", got, want)
	}
}
