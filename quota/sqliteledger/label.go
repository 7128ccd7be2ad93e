package sqliteledger

import (
	"database/sql/driver"
	"strconv"
	"time"

	"github.com/ration-dev/ration/quota"
)

type label struct {
	method string
	caller quota.Caller
}

// labelRow is the id of a label and when it was last used, to the hour.
type labelRow struct{ id, used int64 }

const (
	hour       = int64(time.Hour / time.Microsecond)
	sweepEvery = 256 // new labels, or clients, until old ones are deleted
)

// labelID returns the id of a label, and inserts the label if necessary.
func (t *tx) labelID(name label) int64 {
	row, cached := t.ledger.labels[name]
	if !cached {
		row = t.findLabel(name)
	}
	if t.now-row.used > hour {
		row.used = t.now
		t.exec("label-touch", row.id, t.now)
	} else if cached {
		return row.id
	}
	if len(t.ledger.labels) >= 4096 {
		clear(t.ledger.labels)
	}
	t.ledger.labels[name] = row
	return row.id
}

func (t *tx) findLabel(name label) labelRow {
	args := []driver.Value{name.method, name.caller.Lane, name.caller.Job, name.caller.Region}
	if row := t.queryRow("label", args...); row != nil {
		return labelRow{integer(row[0]), integer(row[1])}
	}
	inserted := labelRow{used: t.now}
	if row := t.queryRow("label-insert", append(args, t.now)...); row != nil {
		inserted.id = integer(row[0])
	}
	if inserted.id%sweepEvery == 0 {
		t.exec("label-sweep", t.now-24*hour)
		clear(t.ledger.labels)
	}
	return inserted
}

// coveredLabels returns the ids of the labels that a coverage covers, as a JSON
// array.
func (t *tx) coveredLabels(coverage *quota.Coverage) string {
	ids := []byte{'['}
	t.query("labels", func(row []driver.Value) {
		caller := quota.Caller{Lane: text(row[2]), Job: text(row[3]), Region: text(row[4])}
		if coverage.Covers(text(row[1]), caller) {
			if len(ids) > 1 {
				ids = append(ids, ',')
			}
			ids = strconv.AppendInt(ids, integer(row[0]), 10)
		}
	})
	return string(append(ids, ']'))
}
