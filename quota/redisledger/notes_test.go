package redisledger_test

import (
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
)

// TestRefusalBehindNotes: a refusal looked for the newest entry but for notes
// with a command for each note: 179 ms for 30,000 of them.
func TestRefusalBehindNotes(t *testing.T) {
	server := redistest.Start(t)
	client, l := raw(t, server), fresh(t, server.URL(), nil)
	granted, err := spend(t, l, "m", 100, day)
	if err != nil {
		t.Fatal(err)
	}
	notes := &quota.Batch{Account: account}
	for range 250 {
		notes.Requests = append(notes.Requests, quota.Request{Method: "note", Kind: quota.EntryNote, Force: true})
	}
	if _, err := l.Spend(t.Context(), notes); err != nil {
		t.Fatal(err)
	}
	do(t, client, "config", "resetstat")
	answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: day.Limit, Charges: []*quota.Charge{day}}}})
	if err != nil || answers[0].Err == nil || answers[0].Receipt.ID != granted.ID {
		t.Fatalf("%+v, %v; want a refusal with the id %v", answers, err, granted.ID)
	}
	if reads := stat(t, client, "commandstats", "cmdstat_lindex:calls="); reads > 50 {
		t.Errorf("%d records were read one by one", reads)
	}
}
