package ledgertest

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// counterRestorations returns the subtests about restored logs that kept no
// entries.
func counterRestorations() []subtest {
	return []subtest{
		{"RestoredOwedCallsOfACounter", restoredOwedCalls},
		{"RestoredAfterACounterIsLost", restoredAfterACounterIsLost},
	}
}

// restoredOwedCalls: calls that no life of the log held are added to what its
// counters have counted, once, by each host. Calls that it granted are not
// counted again, nor missing, although it kept no entries of them.
func restoredOwedCalls(w *world) {
	each, search := charge("each", 1000, quota.Counter(time.Hour)), charge("search", 1000, quota.Counter(time.Hour), methods("search"), counted)
	w.clock.Set(noon.Add(50 * time.Minute))
	restorations := map[int]*quota.Restoration{}
	for host := range 2 {
		client := quota.NewClient()
		granted := w.batch(request("search", 30, each, search))[0].Receipt
		at := granted.At.Add(time.Duration(host+1) * time.Second)
		restorations[host] = &quota.Restoration{Account: account, History: 2 * time.Hour, Known: granted,
			Entries: []quota.Entry{
				{At: granted.At, ID: granted.ID, Method: "search", Units: 30, Calls: 1},
				{At: at, ID: quota.ID{Client: client, Seq: 1}, Method: "search", Units: 20, Calls: 1},
				{At: at.Add(15 * time.Minute), ID: quota.ID{Client: client, Seq: 2}, Method: "list", Units: 4, Calls: 1},
			},
			Lives: []quota.Life{{Client: granted.ID.Client, Epoch: granted.Epoch, Since: granted.At}, {Client: client}},
		}
	}
	w.batch(request("search", 100, each, search)) // of a third host
	w.clock.Add(20 * time.Minute)
	for host, units := range []quota.Units{160 + 24, 160 + 48} {
		for again := range 2 {
			done, err := w.Restore(w.ctx, restorations[host])
			missing := 2 - 2*again
			isWhole := done.Entries == missing && done.Units == quota.Units(12*missing)
			isLost := done.Forgotten != nil || done.Known.Epoch != restorations[host].Known.Epoch
			if err != nil || !isWhole || isLost {
				w.Fatalf("%+v, %v; want %d entries and no loss", done, err, missing)
			}
			w.counts(units, each)
			w.counts(quota.Units(4+host), search)
		}
	}
	for _, r := range restorations { // nor do the hosts notice a loss as they go on
		w.granted(&quota.Batch{Account: account, Known: r.Known, Requests: []quota.Request{request("list", 1, each)}})
	}
}

// restoredAfterACounterIsLost: a log that has lost its counters counts all that
// is restored.
func restoredAfterACounterIsLost(w *world) {
	each := charge("each", 1000, quota.Counter(time.Hour))
	client, at := quota.NewClient(), w.clock.Now().Add(-time.Minute)
	_, err := w.Restore(w.ctx, &quota.Restoration{Account: account, History: 2 * time.Hour, Lost: true, Known: quota.Receipt{Account: account, ID: quota.ID{Client: client, Seq: 1}, At: at, Epoch: 77},
		Entries: []quota.Entry{
			{At: at, ID: quota.ID{Client: client, Seq: 1}, Method: "search", Units: 30, Calls: 1},
			{At: at.Add(time.Second), ID: quota.ID{Client: client, Seq: 2}, Method: "search", Units: 20, Calls: 1},
		},
		Lives: []quota.Life{{Client: client, Epoch: 77, Since: at}, {Client: client, Seq: 2}},
	})
	if err != nil {
		w.Fatal(err)
	}
	w.clock.Add(2 * time.Minute)
	w.spend(7, each)
	w.counts(57, each)
}

// counts checks what the periods of a counter have counted.
func (w *world) counts(want quota.Units, counter *quota.Charge) {
	w.Helper()
	if s := w.standings(counter)[0]; s.Used+s.Over != want {
		w.Fatalf("%+v; want %d", s, want)
	}
}
