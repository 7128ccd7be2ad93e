package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// outages knows whether the ledger can be asked, and what went out without it.
// It says so once for each outage that this process meets: at the first call
// that is granted without the ledger, and when the ledger is back. A mark in the state
// folder tells other commands since when. It is safe for concurrent use.
type outages struct {
	name string // of the ledger
	mark string // a file; "" where there is no state folder

	// unrecorded returns what all processes of the host sent within the
	// allowance in the last 24 hours.
	unrecorded func() (quota.Units, error)

	silent bool // leaves no mark; set before the ledger is asked

	mu      sync.Mutex
	say     func(outageNews)
	eager   bool // says it at the first failure, granted or not
	asked   bool // the ledger has answered, or failed to
	down    bool
	told    bool // of the present outage
	since   time.Time
	until   time.Time // of the last outage that is over
	reason  string
	units   quota.Units // granted here without the ledger, in all outages
	calls   int
	current quota.Units // of units, those of the present outage
}

// outageNews is what is said of an outage.
type outageNews struct {
	back bool
	text string
}

// outageMark is the file that tells other commands of an outage.
type outageMark struct {
	Ledger string    `json:"ledger"`
	Since  time.Time `json:"since"`
	Seen   time.Time `json:"seen"`
	Reason string    `json:"reason"`
}

const outageFile = "ledger-down.json"

// failed notes that the ledger could not be asked.
func (o *outages) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin(outageReason(err))
	if o.eager {
		o.tell()
	}
}

// begin begins an outage, unless one holds. The caller has locked o.
func (o *outages) begin(reason string) {
	o.asked = true
	if o.down {
		return
	}
	o.down, o.told, o.since, o.until, o.reason, o.current = true, false, time.Now().UTC().Truncate(time.Second), time.Time{}, reason, 0
	if known, ok := readOutage(o.mark); ok && known.Ledger == o.name {
		o.since = known.Since
	}
	o.leaveMark()
}

// leaveMark tells other commands of the outage, once there is a state folder.
func (o *outages) leaveMark() {
	if o.mark == "" || o.silent {
		return
	}
	if text, err := json.Marshal(outageMark{o.name, o.since, time.Now().UTC(), o.reason}); err == nil {
		_ = privatefile.Replace(o.mark, append(text, '\n'), false) // without it they learn of the outage when they meet it
	}
}

// tell says that the ledger is down, once.
func (o *outages) tell() {
	if o.told {
		return
	}
	o.told = true
	sum := ""
	if all, err := o.unrecorded(); err == nil && all > 0 {
		sum = fmt.Sprintf(" (%s from this host in the last 24 hours)", counted(all, "unit"))
	}
	o.say(outageNews{text: fmt.Sprintf("the ledger %s is down since %s: %s; calls go out within the allowance of when_ledger_down, and no budget shows them%s",
		o.name, quota.Stamp(o.since), o.reason, sum)})
}

// answered notes that the ledger answered.
func (o *outages) answered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.asked && !o.down {
		return
	}
	o.asked = true
	if known, ok := readOutage(o.mark); ok && known.Ledger == o.name && !o.silent {
		_ = os.Remove(o.mark)
	}
	if !o.down {
		return
	}
	o.down, o.until = false, time.Now().UTC()
	if o.told {
		o.say(outageNews{true, fmt.Sprintf("the ledger %s is back after %s; %s went out from here without it, which no budget shows",
			o.name, quota.Human(o.until.Sub(o.since)), counted(o.current, "unit"))})
	}
}

// granted notes a call that went out without the ledger.
func (o *outages) granted(units quota.Units) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begin("it did not answer")
	o.units, o.current, o.calls = o.units+units, o.current+units, o.calls+1
	if !o.told {
		o.leaveMark()
	}
	o.tell()
}

// outageReason is why the ledger could not be asked, without what is said anyway.
func outageReason(err error) string {
	text := err.Error()
	if cut := strings.LastIndex(text, quota.ErrLedgerDown.Error()+": "); cut >= 0 {
		text = text[cut+len(quota.ErrLedgerDown.Error())+2:]
	}
	text, _, _ = strings.Cut(text, "; see that it is up")
	return text
}

func readOutage(path string) (outageMark, bool) {
	var known outageMark
	text, err := privatefile.ReadFile(path, maxStateFile)
	return known, err == nil && json.Unmarshal(text, &known) == nil && known.Ledger != ""
}

// ledgerState is how JSON documents say whether the ledger can be asked.
type ledgerState struct {
	Down       bool         `json:"down"`
	Since      *time.Time   `json:"since"`
	Until      *time.Time   `json:"until"` // when this process found it back
	Reason     *string      `json:"reason"`
	Granted    quota.Units  `json:"granted_units"`    // by this process, without it
	Unrecorded *quota.Units `json:"unrecorded_units"` // by all of this host in the last 24 hours; null: not known
}

// state returns what is known of the ledger.
func (o *outages) state() ledgerState {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := ledgerState{Down: o.down, Since: instant(o.since), Until: instant(o.until), Granted: o.units}
	if s.Since != nil {
		s.Reason = &o.reason
	}
	if all, err := o.unrecorded(); err == nil {
		s.Unrecorded = &all
	}
	if !o.asked && o.mark != "" {
		s.recall(o.mark, o.name)
	}
	return s
}

// recall fills in what another command found out last. An empty name is any ledger.
func (s *ledgerState) recall(mark, name string) {
	if known, ok := readOutage(mark); ok && (name == "" || known.Ledger == name) {
		s.Down, s.Since, s.Reason = true, instant(known.Since), &known.Reason
	}
}

// String says for people that the ledger is, or was, down, and is empty when
// there is nothing to say.
func (s ledgerState) String() string {
	if s.Since == nil {
		return ""
	}
	text := fmt.Sprintf("down since %s: %s", quota.Stamp(*s.Since), *s.Reason)
	if !s.Down && s.Until != nil {
		text = fmt.Sprintf("was down from %s to %s: %s", quota.Stamp(*s.Since), quota.Stamp(*s.Until), *s.Reason)
	}
	if s.Granted > 0 {
		text += fmt.Sprintf("; %s went out without it, and no budget shows them", counted(s.Granted, "unit"))
	}
	return text
}

// ledgerState returns what is known of the ledger, asked or not.
func (a *app) ledgerState() ledgerState {
	if a.outages != nil {
		return a.outages.state()
	}
	var s ledgerState
	if dir, err := a.state(); err == nil {
		s.recall(filepath.Join(dir, outageFile), "")
	}
	return s
}

// writeJSON prints a document, with the state of the ledger as its last key.
func (a *app) writeJSON(document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	state, err := json.Marshal(a.ledgerState())
	if err != nil {
		return err
	}
	if body, ok := strings.CutSuffix(string(text), "}"); ok {
		if body != "{" {
			body += ","
		}
		text = fmt.Appendf(nil, `%s"ledger_state":%s}`, body, state)
	}
	_, err = a.stdout.Write(append(text, '\n'))
	return err
}

// sayOutage prints what is said of an outage to stderr, whatever -q says.
func (a *app) sayOutage(news outageNews) {
	if !a.json {
		fmt.Fprintln(a.stderr, "ration:", news.text)
		return
	}
	var told struct {
		Warning struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
		} `json:"warning"`
	}
	told.Warning.Kind, told.Warning.Message = "ledger", news.text
	_ = json.NewEncoder(a.stderr).Encode(told)
}

// watchOutages begins to watch a ledger. A process that opens the same one
// again, as serve does, goes on with what it knows.
func (a *app) watchOutages(name string, unrecorded func() (quota.Units, error)) *outages {
	o := a.outages
	if o == nil || o.name != name {
		o = &outages{name: name, say: a.sayOutage}
		if dir, err := a.state(); err == nil {
			o.mark = filepath.Join(dir, outageFile)
		}
		a.outages = o
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unrecorded = unrecorded
	return o
}

// sayEagerly has news of outages said otherwise, and at the first failure.
func (o *outages) sayEagerly(say func(outageNews)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.say, o.eager = say, true
}

// asking is whether the ledger itself answered one spend. It travels in the
// context from the ledger above the allowance to the one below.
type asking struct{ answered bool }

type askingKey struct{}

// underAllowance sees each time that the ledger itself is asked.
type underAllowance struct {
	quota.Ledger
	outages *outages
}

// saw notes how the ledger answered, and says where a password it wants comes from.
func (l *underAllowance) saw(err error) error {
	switch {
	case err == nil:
		l.outages.answered()
	case errors.Is(err, quota.ErrLedgerDown):
		l.outages.failed(err)
	case errors.Is(err, quota.ErrLedgerConfig) && wantsPassword(err.Error()):
		return fmt.Errorf("%w; the password comes from RATION_REDIS_PASSWORD, or from the file that RATION_REDIS_PASSWORD_FILE names; cron and systemd need it too", err)
	}
	return err
}

// wantsPassword reports whether a Redis refused for want of a password, or took a
// command that is long for one that must not be read without it.
func wantsPassword(text string) bool {
	return strings.Contains(text, "NOAUTH") || strings.Contains(text, "WRONGPASS") || strings.Contains(text, "Protocol error: unauthenticated")
}

// Spend implements quota.Ledger.
func (l *underAllowance) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	answers, err := l.Ledger.Spend(ctx, batch)
	if a, ok := ctx.Value(askingKey{}).(*asking); ok && err == nil {
		a.answered = true
	}
	return answers, l.saw(err)
}

// Standings implements quota.Ledger.
func (l *underAllowance) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	standings, err := l.Ledger.Standings(ctx, account, key, charges)
	return standings, l.saw(err)
}

// RealTime implements quota.RealTimeLedger.
func (l *underAllowance) RealTime() bool { return quota.RealTime(l.Ledger) }

// overAllowance sees what is granted without the ledger.
type overAllowance struct {
	quota.Ledger
	outages *outages
}

// Spend implements quota.Ledger.
func (l *overAllowance) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	a := &asking{}
	answers, err := l.Ledger.Spend(context.WithValue(ctx, askingKey{}, a), batch)
	if err != nil || a.answered {
		return answers, err
	}
	for i := range answers {
		if answers[i].Err == nil {
			l.outages.granted(batch.Requests[i].Units)
		}
	}
	return answers, err
}

// RealTime implements quota.RealTimeLedger.
func (l *overAllowance) RealTime() bool { return quota.RealTime(l.Ledger) }
