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
	opSpend  = "" // a call, before it was made
	opSettle = "settle"
	opRefund = "refund" // it was never made
)

// line is one line of a file, as JSON. A settle or refund repeats the instant
// and the id of the call that it corrects, so that both grow old together.
type line struct {
	At      time.Time   `json:"at"` // whole microseconds, in UTC
	ID      string      `json:"id"` // as quota.ID writes it
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

// log is what the file of one account holds.
type log struct {
	lines  [][]byte // each with its newline
	parsed []line   // one for each
	spends map[string]*spent

	last  time.Time // the newest stamp ever given
	size  int64     // what of the file is whole; a torn line follows
	ended bool      // it ends in a newline, or is empty
}

// spent is a call as its corrections left it.
type spent struct {
	line
	units quota.Units
}

// parse reads a file. What follows the last newline may be torn: its writer
// was killed, before it could answer, so nothing was sent on it. It counts
// if it is whole all the same. Any other line that cannot be read is
// damage, and an error: to leave it out could free units that were spent.
func parse(data []byte) (*log, error) {
	l := &log{spends: map[string]*spent{}, ended: true}
	for len(data) > 0 {
		raw, rest, ended := bytes.Cut(data, []byte("\n"))
		e, err := decode(raw)
		if err != nil && !ended {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d cannot be read: %w", len(l.lines)+1, err)
		}
		l.size += int64(len(raw))
		if ended {
			l.size++
		}
		l.ended = ended
		l.apply(append(raw[:len(raw):len(raw)], '\n'), e)
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
		return line{}, fmt.Errorf("no id, no instant, or units out of range")
	}
	return e, nil
}

func (l *log) apply(raw []byte, e line) {
	l.lines, l.parsed = append(l.lines, raw), append(l.parsed, e)
	if e.At.After(l.last) {
		l.last = e.At
	}
	if e.Op == opSpend {
		l.spends[e.ID] = &spent{e, e.Units}
	} else if have := l.spends[e.ID]; have != nil {
		have.units = e.Units
	}
}

// used returns the units of the trailing window. A stamp ahead of now, after
// the clock has stepped back, counts.
func (l *log) used(now time.Time) quota.Units {
	var used quota.Units
	for _, e := range l.spends {
		if now.Sub(e.At) < window {
			used += e.units
		}
	}
	return used
}

func (l *log) find(id quota.ID) *spent { return l.spends[id.String()] }

// spend returns the line of a request. Its stamp is the newest yet, so that a
// clock that steps back makes no call older than it is.
func (l *log) spend(batch *quota.Batch, r *quota.Request, id quota.ID, now time.Time) line {
	at := now.UTC().Truncate(time.Microsecond)
	if !at.After(l.last) {
		at = l.last.Add(time.Microsecond)
	}
	l.last = at
	return line{At: at, ID: id.String(), Account: batch.Account, Key: batch.Key, Method: r.Method,
		Lane: r.Caller.Lane, Job: r.Caller.Job, Region: r.Caller.Region, Units: r.Units}
}

// compacted returns the lines to keep, and whether it is worth while to write
// them anew: when most of many lines are old. They are kept for a second
// window, so that a clock that ran ahead for less than a day loses nothing.
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
