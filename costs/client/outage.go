package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
)

// outages tracks whether the ledger is down and what was granted without it,
// and reports both. A file in the state folder, the mark, tells other
// processes. It is safe for concurrent use.
type outages struct {
	ledger  string
	mark    string // a file; "" where there is no state folder
	creates bool   // the state folder, if it is missing
	refused string // why no call is granted without the ledger; "" if some may be
	report  func(error)
	owes    func(account string) bool // whether the ledger lacks calls of this host

	mu    sync.Mutex
	asked bool        // whether the ledger has answered, or failed to, at least once
	last  OutageError // Since is zero before the first outage
	first bool        // a call was granted without the ledger, and is not reported yet
	holds int         // batches of calls that are being granted
}

// outageMark is the content of the mark.
type outageMark struct {
	Ledger string    `json:"ledger"`
	Since  time.Time `json:"since"`
	Seen   time.Time `json:"seen"`
	Reason string    `json:"reason"`
}

// newOutages returns the outages of a Client.
func (c *Client) newOutages() *outages {
	o := &outages{ledger: c.name, creates: !c.options.MustExist, refused: c.options.whyRefused(c.table), owes: c.owes}
	o.report = func(err error) { c.report(quota.Call{}, err) }
	if c.state != "" {
		o.mark = filepath.Join(c.state, outageFile)
	}
	return o
}

const outageFile = "ledger-down.json"

// maxStateFile is the most bytes that are read of a small file in the
// state folder.
const maxStateFile = 64 << 10

// Outage returns the current outage of the ledger or else the last one, or
// nil if none is known. Until the Client has used the ledger, it returns
// what another process with the same state folder found. It may be called
// after Close.
func (c *Client) Outage() *OutageError {
	o := c.outages
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked {
		if known, ok := readMark(o.mark); ok && known.Ledger == o.ledger {
			outage := known.outage()
			outage.refused = o.refused
			return outage
		}
	}
	if o.last.Since.IsZero() {
		return nil
	}
	return new(o.last)
}

// LastOutage returns the outage that a process with this state folder found
// last, or nil if the ledger has answered since.
func LastOutage(state string) *OutageError {
	if known, ok := readMark(filepath.Join(state, outageFile)); ok {
		return known.outage()
	}
	return nil
}

func (m *outageMark) outage() *OutageError {
	return &OutageError{Ledger: m.Ledger, Down: true, Since: m.Since, Reason: m.Reason}
}

func readMark(path string) (mark outageMark, ok bool) {
	if path == "" {
		return mark, false
	}
	text, err := files.ReadFile(path, maxStateFile)
	return mark, err == nil && json.Unmarshal(text, &mark) == nil && mark.Ledger != ""
}

// failed records that the ledger could not be reached.
func (o *outages) failed(err error) {
	o.mu.Lock()
	begun := o.begin(outageReason(err))
	last := o.last
	o.mu.Unlock()
	if begun {
		o.report(&last)
	}
}

// granted records a call that was granted without the ledger.
func (o *outages) granted(units quota.Units) {
	o.mu.Lock()
	o.begin("it did not answer")
	if o.last.Units == 0 {
		o.first = true
		o.writeMark()
	}
	o.last.Units += units
	o.last.Total += units
	o.reportFirst()
}

// hold delays the report of the first call that is granted without the ledger
// until release is called, since other calls are granted with it.
func (o *outages) hold() {
	o.mu.Lock()
	o.holds++
	o.mu.Unlock()
}

func (o *outages) release() {
	o.mu.Lock()
	o.holds--
	o.reportFirst()
}

// reportFirst reports the first call of an outage, unless that was done or must
// wait. The caller has locked o, and reportFirst unlocks it.
func (o *outages) reportFirst() {
	isDue, last := o.first && o.holds == 0, o.last
	o.first = o.first && !isDue
	o.mu.Unlock()
	if isDue {
		o.report(&last)
	}
}

// answered records that the ledger answered.
func (o *outages) answered() {
	o.mu.Lock()
	if o.asked && !o.last.Down {
		o.mu.Unlock()
		return
	}
	o.asked = true
	if o.isMarked() {
		_ = os.Remove(o.mark)
	}
	back := o.last.Down
	if back {
		o.first = false
		o.last.Down, o.last.Until = false, time.Now().UTC()
	}
	last := o.last
	o.mu.Unlock()
	if back {
		o.report(&last)
	}
}

// told records that the ledger let an account be read. So does a read-only
// server, or one whose memory is full. If the ledger lacks calls of the
// account, the outage therefore ends when they are appended, here or by another
// process, which removes the mark.
func (o *outages) told(account string) {
	o.mu.Lock()
	mayEnd := !o.asked || o.last.Down
	isEnded := o.last.Down && o.mark != "" && !o.isMarked()
	o.mu.Unlock()
	if mayEnd && (isEnded || !o.owes(account)) {
		o.answered()
	}
}

// isMarked reports whether a process has marked an outage of this ledger.
func (o *outages) isMarked() bool {
	known, ok := readMark(o.mark)
	return ok && known.Ledger == o.ledger
}

// begin begins an outage, unless one is in progress, and reports whether it
// did. The caller has locked o.
func (o *outages) begin(reason string) bool {
	o.asked = true
	if o.last.Down {
		return false
	}
	since := time.Now().UTC().Truncate(time.Second)
	if known, ok := readMark(o.mark); ok && known.Ledger == o.ledger {
		since = known.Since
	}
	o.last = OutageError{Ledger: o.ledger, Down: true, Since: since, Reason: reason,
		refused: o.refused, Total: o.last.Total}
	o.writeMark()
	return true
}

// writeMark writes the mark. It is best effort: other processes can also find
// the outage themselves, but not since when it lasts.
func (o *outages) writeMark() {
	if o.mark == "" || o.creates && files.MkdirAll(filepath.Dir(o.mark)) != nil {
		return
	}
	text, err := json.Marshal(outageMark{o.ledger, o.last.Since, time.Now().UTC(), o.last.Reason})
	if err == nil {
		_ = files.Replace(o.mark, append(text, '\n'), false)
	}
}

// outageReason returns why the ledger could not be reached, without the words
// that an OutageError adds anyway.
func outageReason(err error) string {
	if down, ok := errors.AsType[interface {
		error
		Short() string
	}](err); ok {
		return down.Short()
	}
	return err.Error()
}

// watch observes how the ledger answers. It adds where passwords come from to
// an error about a missing password.
func (c *Client) watch(op, account string, _ time.Duration, err error) error {
	switch {
	case err == nil:
		if op == "append" {
			c.outages.answered()
		} else {
			c.outages.told(account)
		}
	case errors.Is(err, quota.ErrLedgerDown):
		c.outages.failed(err)
	case errors.Is(err, quota.ErrLedgerConfig) && wantsPassword(err.Error()):
		return fmt.Errorf("%w; the password comes from %s, or from the file that %[2]s_FILE names; "+
			"cron and systemd need it too", err, passwordVariable)
	}
	return err
}

// wantsPassword reports whether Redis refused a command because the password is
// missing or wrong. Without one it also refuses to read a long command.
func wantsPassword(text string) bool {
	return strings.Contains(text, "NOAUTH") || strings.Contains(text, "WRONGPASS") ||
		strings.Contains(text, "Protocol error: unauthenticated")
}
