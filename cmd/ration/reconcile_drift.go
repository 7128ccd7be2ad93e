package main

import (
	"fmt"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// How drift was found.
const (
	byHand     = "by ration ledger reconcile"
	byUpstream = "by the upstream's answers"
)

// driftOf says how an entry came to be found missing: by hand, by the upstream's
// answers, or with "" not at all.
func driftOf(e *quota.Entry) string {
	switch {
	case e.Units == 0 && e.Calls == 0:
	case e.Kind == quota.EntryCorrection:
		return byHand
	case e.Kind == quota.EntryNote:
		return byUpstream
	}
	return ""
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
