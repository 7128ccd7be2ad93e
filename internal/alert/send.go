package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// event is an alert as it is sent.
type event struct {
	Text    string      `json:"text"` // for people; as Slack wants it
	Kind    string      `json:"kind"`
	Account string      `json:"account"`
	Budget  string      `json:"budget,omitempty"`
	Level   quota.Units `json:"level,omitempty"` // percent
	Used    quota.Units `json:"used,omitempty"`
	Limit   quota.Units `json:"limit,omitempty"`
	Until   *time.Time  `json:"until,omitempty"` // when units return, or a cooldown ends
	At      time.Time   `json:"at"`
	Host    string      `json:"host,omitempty"`

	detail  string
	percent quota.Units
	name    string        // of its claim
	again   time.Duration // the least time before it may be sent again
}

const (
	attempts    = 3
	httpTime    = 10 * time.Second
	commandTime = 30 * time.Second
	maxDetail   = 2000 // bytes
)

// body returns what is sent.
func (w *Watch) body(e *event) ([]byte, error) {
	one := *e
	detail := withoutSecrets(one.detail)
	if w.options.Redact != nil {
		detail = w.options.Redact(detail)
	}
	detail = human.Shorten(detail, maxDetail)
	if one.Level > 0 {
		detail = fmt.Sprintf("%d %%: %s", one.Level, detail)
	}
	one.At = time.Now().UTC().Truncate(time.Second)
	one.Host = w.client.Host()
	one.Text = forSlack("ration: " + detail)
	return json.Marshal(&one)
}

// address is a word of a text that may be a URL.
var address = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'<>()]*)`)

// withoutSecrets cuts the URLs of a text to their hosts, and those of ledgers
// to their databases.
func withoutSecrets(text string) string {
	return address.ReplaceAllStringFunc(text, func(word string) string {
		parts := address.FindStringSubmatch(word)
		rest := strings.TrimRight(parts[2], ".,:;") // of the sentence
		after := parts[2][len(rest):]
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		cut := "?#;"
		if strings.HasPrefix(strings.ToLower(parts[1]), "http") {
			cut += "/"
		}
		if end := strings.IndexAny(rest, cut); end >= 0 && end < len(rest)-1 {
			rest = rest[:end] + "/…"
		}
		return parts[1] + rest + after
	})
}

// forSlack returns a text without control characters and direction marks, in
// which Slack finds no link, mention or command.
func forSlack(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, text)
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// send sends an event, and tries again for a while.
func (w *Watch) send(ctx context.Context, e *event, target *costs.Alert) error {
	body, err := w.body(e)
	if err != nil {
		return err
	}
	isCommand := len(target.Command) > 0
	once := func() (retry bool, err error) { return post(ctx, target, body) }
	if isCommand {
		once = func() (bool, error) { return true, w.execute(ctx, target.Command, body) }
	}
	pause := w.pause
	for attempt := 1; ; attempt++ {
		retry, err := once()
		isLast := attempt == attempts || isCommand
		if err == nil || !retry || isLast {
			return err
		}
		select {
		case <-time.After(pause):
			pause *= 4
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// Check returns an error if no alert can be sent to target, because its program
// or the file with its webhook is missing. It sends nothing.
func Check(target *costs.Alert) error {
	if len(target.Command) == 0 {
		_, err := webhookOf(target)
		return err
	}
	_, err := exec.LookPath(target.Command[0])
	return err
}

// webhookOf returns the URL of a target's webhook.
func webhookOf(target *costs.Alert) (string, error) {
	if target.WebhookFile == "" {
		return target.Webhook, nil
	}
	text, err := files.ReadSecret(target.WebhookFile)
	if err != nil {
		return "", err
	}
	to := strings.TrimSpace(string(text))
	if err := costs.CheckWebhook(to); err != nil {
		return "", fmt.Errorf("%s holds %w", target.WebhookFile, err)
	}
	return to, nil
}

// post posts a body to the webhook of a target. No error shows its URL.
func post(ctx context.Context, target *costs.Alert, body []byte) (retry bool, err error) {
	to, err := webhookOf(target)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, httpTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the webhook is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	sender := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := sender.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // whose text has the URL
			err = failed.Err
		}
		return true, fmt.Errorf("webhook: %w", err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return false, nil
	}
	return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests ||
			resp.StatusCode == http.StatusRequestTimeout,
		fmt.Errorf("webhook: %s", resp.Status)
}

// execute runs a command with a body as its standard input.
func (w *Watch) execute(ctx context.Context, command []string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	cmd.Env = w.options.Environ
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}
