package main

import (
	"fmt"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// reconciled is the job, and where a budget names no methods the method, of
// what reconcile enters.
const reconciled = "reconcile"

// reportedLane is the lane of what the guard enters when an upstream's answer
// says that less is left than the ledger believed.
const reportedLane = "upstream"

// drift says how an entry came to be found missing: by hand, by the upstream's
// answers, or with "" not at all. It is units of no call, or a call of no units.
func drift(job, lane string, units, calls quota.Units) string {
	switch {
	case (units == 0) == (calls == 0):
	case job == reconciled:
		return byHand
	case lane == reportedLane:
		return byUpstream
	}
	return ""
}

// How drift was found.
const (
	byHand     = "by ration ledger reconcile"
	byUpstream = "by the upstream's answers"
)

func driftOf(e quota.Entry) string {
	return drift(e.Caller.Job, e.Caller.Lane, e.Units, e.Calls)
}

// missed is what was found missing, by how it was found.
type missed struct{ hand, upstream quota.Units }

// told says how much was found missing, and how: 300 units by ration ledger
// reconcile, 80 units by the upstream's answers.
func (m missed) told(measure string) string {
	var parts []string
	for _, part := range []struct {
		amount quota.Units
		by     string
	}{{m.hand, byHand}, {m.upstream, byUpstream}} {
		if part.amount > 0 {
			parts = append(parts, fmt.Sprintf("%d %s %s", part.amount, measure, part.by))
		}
	}
	return strings.Join(parts, ", ")
}
