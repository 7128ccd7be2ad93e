package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// receiver is a real webhook, which fails as often as it is told.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	fails int
	got   []map[string]any
}

func newReceiver(t *testing.T, fails int) *receiver {
	r := &receiver{fails: fails}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fails > 0 {
			r.fails--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		body, _ := io.ReadAll(req.Body)
		var one map[string]any
		if err := json.Unmarshal(body, &one); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		r.got = append(r.got, one)
	}))
	t.Cleanup(r.Close)
	return r
}

// texts returns what has come since the last call.
func (r *receiver) texts() (texts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.got {
		texts = append(texts, fmt.Sprint(one["text"]))
	}
	r.got = nil
	return texts
}

// newClient returns a client with a budget of 100 units a day, and a shadow of
// it that is soon spent.
func newClient(t *testing.T, alertLines, ledger, state string) *client.Client {
	t.Helper()
	return newClientOf(t, "costs: {list: 1}\nbudgets: [{name: day, limit: 100, window: 24h}, {name: tried, limit: 51, "+
		"window: 24h, shadow: true}]\n", alertLines, ledger, state)
}

// newClientOf returns a client with costs and budgets.
func newClientOf(t *testing.T, budgets, alertLines, ledger, state string) *client.Client {
	t.Helper()
	text := "version: 1\naccount: p\n" + budgets + "alert: " + alertLines + "\n"
	table, err := costs.Parse(filepath.Join(state, "costs.yaml"), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(table, &client.Options{Ledger: ledger, State: state, Replica: filepath.Join(state, "replica"),
		Getenv: func(string) string { return "" },
		Report: func(quota.Call, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func spend(t *testing.T, c *client.Client, units quota.Units) {
	t.Helper()
	if _, err := c.Guard().Spend(t.Context(), quota.Call{Account: "p", Method: "list", Units: units}); err != nil {
		t.Fatal(err)
	}
}

// sqlite is the address of a ledger in a folder.
func sqlite(dir string) string { return "sqlite:" + filepath.Join(dir, "ration.db") }

// TestAnAlertComesOnce: of eight watches one sends each level, also after
// failures, and the highest of several levels says it all.
func TestAnAlertComesOnce(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t, 2)
	var watches []*alert.Watch
	var c *client.Client
	for range 8 {
		c = newClient(t, "{webhook: "+r.URL+"/hook, levels: [50, 80, 95]}", sqlite(dir), t.TempDir())
		watches = append(watches, alert.New(c, nil).Impatient())
	}
	for _, step := range []struct {
		units quota.Units
		want  string
	}{{49, ""}, {32, "80 %: day of p has used 81 of 100 units"}, {1, ""}, {14, "95 %: "}, {4, ""}} {
		spend(t, c, step.units)
		var wg sync.WaitGroup
		for _, w := range watches {
			wg.Go(func() { w.Check(t.Context()) })
		}
		wg.Wait()
		texts := r.texts()
		if step.want == "" && len(texts) > 0 || step.want != "" &&
			(len(texts) != 1 || !strings.Contains(texts[0], step.want)) {
			t.Fatalf("after %d more units: %q; want one with %q", step.units, texts, step.want)
		}
	}
}

// TestAFailedAlertIsSentAgain: an alert that could not be delivered is sent by
// the next check of another process, and the error shows no secret of the URL.
func TestAFailedAlertIsSentAgain(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t, 0)
	r.fails = 1
	var reported error
	o := &alert.Options{Report: func(err error) { reported = errors.Join(reported, err) }}
	c := newClient(t, "{webhook: \"http://127.0.0.1:1/services/SECRET?token=SECRET\"}", sqlite(dir), t.TempDir())
	spend(t, c, 96)
	alert.New(c, o).Impatient().Check(t.Context())
	if reported == nil || strings.Contains(reported.Error(), "SECRET") {
		t.Errorf("reported %v", reported)
	}
	other := newClient(t, "{webhook: "+r.URL+"}", sqlite(dir), t.TempDir())
	alert.New(other, nil).Impatient().Check(t.Context())
	if texts := r.texts(); len(texts) != 1 {
		t.Errorf("%q; want one", texts)
	}
}

// TestAnAlertInjectsNothing: what an upstream says cannot mention a channel,
// link, or move the cursor, and URLs lose their secrets.
func TestAnAlertInjectsNothing(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t, 0)
	c := newClient(t, "{webhook: "+r.URL+"}", sqlite(dir), dir)
	reason := "<!channel> & \x1b[2J\u202e<https://user:hunter2@api.example.com/v1?key=AIzaSECRET|here>\nratelimited " +
		"PASSWORD"
	if err := c.Guard().Cool(t.Context(), quota.Cooldown{Account: "p", For: time.Hour, Reason: reason}); err != nil {
		t.Fatal(err)
	}
	w := alert.New(c, &alert.Options{Redact: func(text string) string {
		return strings.ReplaceAll(text, "PASSWORD",
			"[hidden]")
	}})
	w.Check(t.Context())
	texts := r.texts()
	if len(texts) != 1 {
		t.Fatalf("%q; want one", texts)
	}
	for _, bad := range []string{"<", ">", "\x1b", "\n", "\u202e", "hunter2", "AIza", "PASSWORD"} {
		if strings.Contains(texts[0], bad) {
			t.Errorf("%q has %q", texts[0], bad)
		}
	}
	for _, want := range []string{"&lt;!channel&gt; &amp;", "https://api.example.com/…", "[hidden]",
		"in cooldown until"} {
		if !strings.Contains(texts[0], want) {
			t.Errorf("%q lacks %q", texts[0], want)
		}
	}
}

// TestAHangingWebhookBlocksNoCall: while a webhook hangs, calls and reports go
// on, and a redirect is not followed.
func TestAHangingWebhookBlocksNoCall(t *testing.T) {
	dir := t.TempDir()
	asked, answer := make(chan bool), make(chan bool)
	hung := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			t.Error("the redirect was followed")
			return
		}
		asked <- true
		<-answer
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer hung.Close()
	c := newClient(t, "{webhook: "+hung.URL+"}", sqlite(dir), dir)
	spend(t, c, 81)
	var reported error
	w := alert.New(c, &alert.Options{Report: func(err error) { reported = err }})
	done := make(chan bool)
	go func() { w.Check(t.Context()); close(done) }()
	<-asked
	spend(t, c, 1)
	for range 200 {
		w.Reported(quota.Call{Account: "p"}, &quota.LimitError{Account: "p", Budget: "day", Limit: 100, Upstream: 10})
	}
	answer <- true
	<-done
	if reported == nil || !strings.Contains(reported.Error(), "307") {
		t.Errorf("reported %v; want the redirect", reported)
	}
}

// TestEachWebhookOfAHostIsTold: of two webhooks of one host, the second did not
// hear that the ledger is down.
func TestEachWebhookOfAHostIsTold(t *testing.T) {
	dir, first, second := t.TempDir(), newReceiver(t, 0), newReceiver(t, 0)
	other := "\n---\nversion: 1\naccount: q\ncosts: {get: 1}\nbudgets: [{name: hour, limit: 9, window: 1h}]\nalert: "
	c := newClient(t, "{webhook: "+first.URL+"/a}"+other+"{webhook: "+second.URL+"/b}", sqlite(dir), dir)
	w := alert.New(c, nil).Impatient()
	for range 2 { // once
		w.TellDown(t.Context(), "p")
	}
	for _, r := range []*receiver{first, second} {
		if got := r.texts(); len(got) != 1 || !strings.Contains(got[0], "does not answer") {
			t.Errorf("%q; want one alert of the outage", got)
		}
	}
}

// TestAlertOfAMovedAccountNamesTheNewLedger: none is sent while the account
// is only being copied.
func TestAlertOfAMovedAccountNamesTheNewLedger(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t, 0)
	c := newClient(t, "{webhook: "+r.URL+"/hook}", sqlite(dir), dir)
	for _, isArriving := range []bool{true, false} {
		move := quota.MovedError{Account: "p", Ledger: "redis://there:6379/2", Arriving: isArriving}
		if err := testledger.CloseAccount(t.Context(), c.Guard().Ledger(), move); err != nil {
			t.Fatal(err)
		}
		alert.New(c, nil).Check(t.Context())
	}
	if got := r.texts(); len(got) != 1 ||
		!strings.Contains(got[0], `account "p" has moved to the ledger redis://there:6379/2; name that one`) {
		t.Errorf("%q; want one alert that names the new ledger", got)
	}
}

// TestDriftIsReportedOnce: what the client reports again and again is one
// alert.
func TestDriftIsReportedOnce(t *testing.T) {
	dir, r := t.TempDir(), newReceiver(t, 0)
	c := newClient(t, "{webhook: "+r.URL+", on: [drift]}", sqlite(dir), dir)
	spend(t, c, 99)
	w := alert.New(c, nil)
	for range 3 {
		w.Reported(quota.Call{Account: "p"}, &quota.LimitError{Account: "p", Budget: "day", Limit: 100, Upstream: 10})
		w.Reported(quota.Call{Account: "p"}, errors.New("something else"))
		w.Check(t.Context())
	}
	if texts := r.texts(); len(texts) != 1 || !strings.Contains(texts[0], "the upstream says") {
		t.Errorf("%q; want one about the limit", texts)
	}
}

// TestAnAlertComesBeforeItIsTooLate: what will be used up at its present pace
// is told before it is, once over all watches.
func TestAnAlertComesBeforeItIsTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		units quota.Units // in the last two hours
		want  string
	}{"runs out": {50, "day of p will be used up at "}, "lasts": {2, ""}, "is used up": {100, ""}} {
		dir, r := t.TempDir(), newReceiver(t, 0)
		spendEarlier(t, dir, c.units)
		var watches []*alert.Watch
		for range 3 {
			client := newClient(t, "{webhook: "+r.URL+"/hook, on: [exhaustion]}", sqlite(dir), t.TempDir())
			watches = append(watches, alert.New(client, nil).Impatient())
		}
		for range 2 {
			for _, w := range watches {
				w.Check(t.Context())
			}
		}
		texts := r.texts()
		if c.want == "" && len(texts) > 0 || c.want != "" && (len(texts) != 1 || !strings.Contains(texts[0], c.want)) {
			t.Errorf("%s: %q; want one with %q", name, texts, c.want)
		}
	}
}

// spendEarlier spends units one by one, evenly over the last two hours.
func spendEarlier(t *testing.T, dir string, units quota.Units) {
	t.Helper()
	now := time.Now()
	at := now
	ledger, err := sqliteledger.Open(filepath.Join(dir, "ration.db"),
		&sqliteledger.Options{Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	guard, err := quota.NewGuard(ledger,
		[]quota.Budget{{Account: "p", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := units; i > 0; i-- {
		at = now.Add(-time.Duration(i) * 2 * time.Hour / time.Duration(units))
		if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "list", Units: 1}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnAlertForeseesTheSchedule: what the schedule will use up is told before
// it is, once together with what the pace says.
func TestAnAlertForeseesTheSchedule(t *testing.T) {
	at := time.Now().Add(5 * time.Hour).Truncate(time.Second) // as it is printed
	for name, c := range map[string]struct {
		planned []time.Time
		failed  error
		want    string
	}{
		"in the window": {[]time.Time{at, at}, nil, "by the schedule, day of p refuses its first call at " +
			at.UTC().Format(time.RFC3339)},
		"beyond it": {[]time.Time{at.Add(24 * time.Hour), at}, nil, ""},
		"not soon":  {[]time.Time{{}, at}, nil, ""},
		"not known": {nil, errors.New("no such file"), ""},
	} {
		dir, r := t.TempDir(), newReceiver(t, 0)
		client := newClient(t, "{webhook: "+r.URL+"/hook, on: [exhaustion]}", sqlite(dir), t.TempDir())
		spend(t, client, 2)
		o := &alert.Options{Planned: func(context.Context) ([]time.Time, error) { return c.planned, c.failed }}
		for range 2 {
			alert.New(client, o).Impatient().Check(t.Context())
		}
		texts := r.texts()
		if c.want == "" && len(texts) > 0 || c.want != "" && (len(texts) != 1 || !strings.Contains(texts[0], c.want)) {
			t.Errorf("%s: %q; want one with %q", name, texts, c.want)
		}
	}
}
