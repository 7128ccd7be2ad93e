package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// UnexplainedRefusal is a refusal by an upstream that no rule explains: it says
// neither what is spent nor for how long. Values of headers are not kept, since
// some are credentials.
type UnexplainedRefusal struct {
	At      time.Time `json:"at"` // of the last one
	Account string    `json:"account"`
	Method  string    `json:"method"`
	Status  int       `json:"status"`
	Headers []string  `json:"headers"` // their names
	Reason  string    `json:"reason"`  // the first line of the message
	Count   int64     `json:"count"`
}

// String says what was not understood, and how to find out more.
func (u *UnexplainedRefusal) String() string {
	return fmt.Sprintf("the upstream of %s refused %s of %s without a reason that a rule explains, the last at %s: %s",
		human.Name(u.Account), human.Count(u.Count, "call"), human.Name(u.Method), human.Time(u.At),
		human.Name(u.Reason))
}

// Explain is the command that says how such an answer is read.
func (u *UnexplainedRefusal) Explain() string {
	const advice = "ration explain --method %s --status %d BODY, then a rule as in docs/answers.md"
	return fmt.Sprintf(advice, human.Name(u.Method), u.Status)
}

const (
	unexplainedFile = "unexplained.json"
	maxUnexplained  = 20 // of an account, method and status each
	unexplainedTime = 7 * 24 * time.Hour
)

// unexplainedLog adds to the file. What other processes add at the same time
// may be lost.
type unexplainedLog struct{ mu sync.Mutex }

// Unexplained returns the refusals that no rule explained, the newest first. A
// refusal is kept for a week after its last time.
func (c *Client) Unexplained() []UnexplainedRefusal {
	var all []UnexplainedRefusal
	text, err := files.ReadFile(filepath.Join(c.state, unexplainedFile), maxStateFile)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(u UnexplainedRefusal) bool { return c.now().Sub(u.At) > unexplainedTime })
}

// keepingUnexplained returns a function that reads answers as read does, and
// keeps the refusals that no rule explains.
func (c *Client) keepingUnexplained(
	read func(quota.Call, *http.Response) quota.Verdict,
) func(quota.Call, *http.Response) quota.Verdict {
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		v := read(call, resp)
		if v.Unexplained {
			c.unexplained.record(c, call, resp, &v)
		}
		return v
	}
}

// record adds an answer. It is best effort: a call never fails for it.
func (l *unexplainedLog) record(c *Client, call quota.Call, resp *http.Response, v *quota.Verdict) {
	if c.state == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := c.Unexplained()
	u := UnexplainedRefusal{Account: call.Account, Method: call.Method, Status: resp.StatusCode}
	if i := slices.IndexFunc(all, func(old UnexplainedRefusal) bool {
		return old.Account == u.Account && old.Method == u.Method && old.Status == u.Status
	}); i >= 0 {
		u.Count = all[i].Count
		all = slices.Delete(all, i, i+1)
	}
	u.Count++
	u.At, u.Reason = c.now().UTC(), v.Reason
	for name := range resp.Header {
		u.Headers = append(u.Headers, name)
	}
	slices.Sort(u.Headers)
	all = append([]UnexplainedRefusal{u}, all[:min(len(all), maxUnexplained-1)]...)
	if text, err := json.Marshal(all); err == nil && files.MkdirAll(c.state) == nil {
		_ = files.Replace(filepath.Join(c.state, unexplainedFile), append(text, '\n'), false)
	}
}
