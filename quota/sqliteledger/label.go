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

// known is a label's id, and when it was last said to be in use.
type known struct{ id, used int64 }

// Labels and clients that are no longer used are looked for now and then.
const (
	hour       = int64(time.Hour / time.Microsecond)
	sweepEvery = 256
	maxClients = 4096 // remembered for each log
)

func (t *tx) label(name label) int64 {
	have, ok := t.ledger.labels[name]
	if !ok {
		have = t.findLabel(name)
	}
	if t.now-have.used > hour {
		have.used = t.now
		t.exec("label-touch", have.id, t.now)
	} else if ok {
		return have.id
	}
	if len(t.ledger.labels) >= 4096 {
		clear(t.ledger.labels)
	}
	t.ledger.labels[name] = have
	return have.id
}

func (t *tx) findLabel(name label) known {
	args := []driver.Value{name.method, name.caller.Lane, name.caller.Job, name.caller.Region}
	if row := t.one("label", args...); row != nil {
		return known{integer(row[0]), integer(row[1])}
	}
	have := known{used: t.now}
	if row := t.one("label-insert", append(args, t.now)...); row != nil {
		have.id = integer(row[0])
	}
	if have.id%sweepEvery == 0 {
		t.exec("label-sweep", t.now-24*hour)
		clear(t.ledger.labels)
	}
	return have
}

// covered returns the ids of the labels that a coverage covers, as a JSON array.
func (t *tx) covered(coverage *quota.Coverage) string {
	ids := []byte{'['}
	t.each("labels", func(row []driver.Value) {
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
