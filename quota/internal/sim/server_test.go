//go:build !race

package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// server is the ledger that all hosts share: one in memory, behind a network and
// with a disk that fail. Its methods are one atomic step each.
type server struct {
	mu    sync.Mutex
	log   *memledger.Ledger
	clock time.Duration // how far its clock is ahead
	down  time.Time     // until when it refuses connections
	slow  time.Time     // until when it answers too late
	lossy time.Time     // until when a part of the messages is lost

	epoch     uint64            // the log's
	life      int               // grows with each loss, which drops all connections
	outside   map[uint64]uint64 // what clients are told instead of an epoch: a copy keeps its original's
	inside    map[uint64]uint64 // the reverse, of the newest copy
	snapshots []snapshot
	decided   map[grantID]decision
}

// grantID identifies a grant even if the same request was granted again by a log
// that had forgotten it.
type grantID struct {
	id quota.ID
	at int64
}

// decision is when a request was granted, in true time and in the server's lives.
type decision struct {
	at   time.Time
	life int
}

// snapshot is a copy of the log, as of a backup or of a replica that lags.
type snapshot struct {
	entries []quota.Entry
	epoch   uint64
}

func newServer() *server {
	s := &server{outside: map[uint64]uint64{}, inside: map[uint64]uint64{}, decided: map[grantID]decision{}}
	s.log = s.open()
	s.epoch = s.restoreInto(s.log, nil)
	return s
}

func (s *server) open() *memledger.Ledger {
	return memledger.Open(&memledger.Options{Now: s.now})
}

// now is called by the ledger, within a step.
func (s *server) now() time.Time { return time.Now().Add(s.clock) }

// keeps is the history that a copy is restored with, so that none of it is too
// old.
const keeps = 4 * 24 * time.Hour

func (s *server) entries() (entries []quota.Entry) {
	for e, err := range s.log.Entries(context.Background(), quota.Query{Account: account}) {
		if err != nil {
			panic(err)
		}
		entries = append(entries, e)
	}
	return entries
}

func (s *server) restoreInto(log *memledger.Ledger, entries []quota.Entry) (inside uint64) {
	done, err := log.Restore(context.Background(), &quota.Restoration{Account: account, History: keeps, Entries: entries})
	if err != nil {
		panic(err)
	}
	return done.Known.Epoch
}

// takeSnapshot keeps a copy to which the log may be rolled back.
func (s *server) takeSnapshot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots = append(s.snapshots, snapshot{s.entries(), s.toClient(s.epoch)})
	if len(s.snapshots) > 4 {
		s.snapshots = s.snapshots[1:]
	}
}

// lose replaces the log by an older copy, or by an empty one if back is 0, and
// returns the entries before and after.
func (s *server) lose(back int) (before, after []quota.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.entries()
	s.log = s.open()
	if back > 0 && back <= len(s.snapshots) {
		copied := s.snapshots[len(s.snapshots)-back]
		s.epoch = s.restoreInto(s.log, copied.entries)
		s.outside[s.epoch], s.inside[copied.epoch] = copied.epoch, s.epoch
	} else {
		s.epoch = s.restoreInto(s.log, nil)
	}
	s.life++
	return before, s.entries()
}

func (s *server) toClient(epoch uint64) uint64 {
	if original, ok := s.outside[epoch]; ok {
		return original
	}
	return epoch
}

// toServer returns the epoch that the ledger knows, if clients call it epoch.
func (s *server) toServer(epoch uint64) uint64 {
	if copied, ok := s.inside[epoch]; ok {
		return copied
	}
	return epoch
}

// spend is one round trip. A connection that is new has the ledger look for the
// entry that the client knows.
func (s *server) spend(batch quota.Batch, isNew bool) ([]quota.Answer, error) {
	ctx := context.Background()
	known := batch.Known
	if batch.Key == "" {
		batch.Known.Epoch = s.toServer(known.Epoch)
		if isNew && !known.At.IsZero() && known.ID != (quota.ID{}) && !s.holds(known) {
			return nil, batch.Forgotten(s.epoch, time.Time{})
		}
	}
	answers, err := s.log.Spend(ctx, &batch)
	for i := range answers {
		if r := &answers[i].Receipt; answers[i].Err == nil {
			r.Epoch = s.toClient(r.Epoch)
			id := grantID{r.ID, r.At.UnixMicro()}
			if _, again := s.decided[id]; !again && batch.Key == "" {
				s.decided[id] = decision{time.Now(), s.life}
			}
		}
	}
	return answers, err
}

// holds reports whether the log has an entry, or can no longer have it because it
// is too old.
func (s *server) holds(known quota.Receipt) bool {
	if s.now().Sub(known.At) > 24*time.Hour {
		return true
	}
	for e := range s.log.Entries(context.Background(), quota.Query{Account: account, Since: known.At, Until: known.At.Add(time.Microsecond)}) {
		return e.ID == known.ID
	}
	return false
}

func (s *server) restore(r *quota.Restoration) (quota.Restored, error) {
	inside := *r
	inside.Heard, inside.Lives = slices.Clone(r.Heard), slices.Clone(r.Lives)
	for i := range inside.Heard {
		inside.Heard[i].Epoch = s.toServer(r.Heard[i].Epoch)
	}
	for i := range inside.Lives {
		inside.Lives[i].Epoch = s.toServer(r.Lives[i].Epoch)
	}
	done, err := s.log.Restore(context.Background(), &inside)
	if err == nil {
		s.epoch = done.Known.Epoch
	}
	done.Known.Epoch = s.toClient(done.Known.Epoch)
	return done, err
}

// counted returns what the ledger counts for each call.
func (s *server) counted() map[quota.ID]quota.Units {
	units := map[quota.ID]quota.Units{}
	for _, e := range s.entries() {
		units[e.ID] += e.Units
	}
	return units
}
