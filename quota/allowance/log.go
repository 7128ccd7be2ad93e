package allowance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
)

// The operations of a line.
const (
	opSpend  = "" // a call that is about to be sent
	opSettle = "settle"
	opRefund = "refund" // the call was never sent
)

// line is one line of a file, as JSON. A settle or refund repeats the timestamp
// and the id of its call, so that both expire together.
type line struct {
	At      time.Time   `json:"at"` // whole microseconds, in UTC
	ID      string      `json:"id"` // a quota.ID
	Op      string      `json:"op,omitempty"`
	Account string      `json:"account"`
	Key     string      `json:"key,omitempty"`
	Method  string      `json:"method,omitempty"`
	Lane    string      `json:"lane,omitempty"`
	Job     string      `json:"job,omitempty"`
	Region  string      `json:"region,omitempty"`
	Units   quota.Units `json:"units"`
}

func (e *line) receipt(batch *quota.Batch, id quota.ID) quota.Receipt {
	return quota.Receipt{Account: batch.Account, Key: batch.Key, ID: id, At: e.At}
}

// log is the content of an account's file.
type log struct {
	lines  [][]byte // each with its newline
	parsed []line   // one for each of lines
	spends map[string]*settledSpend

	last  time.Time // the newest timestamp
	size  int64     // of the whole lines; a torn line may follow
	ended bool      // the whole lines end in a newline, or there are none
}

// settledSpend is a call with its units after settles and refunds.
type settledSpend struct {
	line
	units quota.Units
}

// parse parses a file. The last line may be torn if its writer was killed. Then
// its call was not granted and not sent, and parse ignores it. A whole last line
// counts, even without its newline. Any other malformed line is an error:
// ignoring it could free units that were spent.
func parse(data []byte) (*log, error) {
	l := &log{spends: map[string]*settledSpend{}, ended: true}
	for len(data) > 0 {
		raw, rest, ended := bytes.Cut(data, []byte("\n"))
		e, err := decode(raw)
		if err != nil && !ended {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d is malformed: %w", len(l.lines)+1, err)
		}
		l.size += int64(len(raw))
		if ended {
			l.size++
		}
		l.ended = ended
		l.addLine(append(raw[:len(raw):len(raw)], '\n'), e)
		data = rest
	}
	return l, nil
}

func decode(raw []byte) (line, error) {
	var e line
	if err := json.Unmarshal(raw, &e); err != nil {
		return line{}, err
	}
	switch {
	case e.Op != opSpend && e.Op != opSettle && e.Op != opRefund:
		return line{}, fmt.Errorf("unknown op %q", e.Op)
	case e.ID == "" || e.At.IsZero() || e.Units < 0 || e.Units > quota.MaxUnits:
		return line{}, fmt.Errorf("no id, no timestamp, or units out of range")
	}
	return e, nil
}

func (l *log) addLine(raw []byte, e line) {
	l.lines, l.parsed = append(l.lines, raw), append(l.parsed, e)
	if e.At.After(l.last) {
		l.last = e.At
	}
	if e.Op == opSpend {
		l.spends[e.ID] = &settledSpend{e, e.Units}
	} else if have := l.spends[e.ID]; have != nil {
		have.units = e.Units
	}
}

// used returns the units of the trailing window. Timestamps after now, from before
// the clock stepped back, count.
func (l *log) used(now time.Time) quota.Units {
	var used quota.Units
	for _, e := range l.spends {
		if now.Sub(e.At) < window {
			used += e.units
		}
	}
	return used
}

func (l *log) find(id quota.ID) *settledSpend { return l.spends[id.String()] }

// newSpend returns the line of a request. Its timestamp is newer than all others,
// so that no call expires early after the clock has stepped back.
func (l *log) newSpend(batch *quota.Batch, r *quota.Request, id quota.ID, now time.Time) line {
	at := now.UTC().Truncate(time.Microsecond)
	if !at.After(l.last) {
		at = l.last.Add(time.Microsecond)
	}
	l.last = at
	return line{At: at, ID: id.String(), Account: batch.Account, Key: batch.Key, Method: r.Method,
		Lane: r.Caller.Lane, Job: r.Caller.Job, Region: r.Caller.Region, Units: r.Units}
}

// compacted returns the lines to keep, and whether so many are old that the file
// should be rewritten. Lines are kept for two windows, so that nothing is lost if
// the clock ran ahead for less than a day.
func (l *log) compacted(now time.Time) ([]byte, bool) {
	var kept [][]byte
	for i, e := range l.parsed {
		if now.Sub(e.At) < 2*window {
			kept = append(kept, l.lines[i])
		}
	}
	old := len(l.lines) - len(kept)
	return bytes.Join(kept, nil), old >= 64 && old > len(kept)
}
